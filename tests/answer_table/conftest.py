"""The answer table of both twins."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.fastpath.twins import NATIVE


@pytest.fixture
def compiled() -> ModuleType:
    """The compiled twin, where it is built."""
    found: ModuleType = pytest.importorskip(NATIVE)
    return found
