"""The answer table of both twins."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from tests.fastpath.twins import BOTH, NATIVE


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins: its module."""
    return importlib.import_module(request.param)


@pytest.fixture
def compiled() -> ModuleType:
    """The compiled twin, where it is built."""
    found: ModuleType = pytest.importorskip(NATIVE)
    return found
