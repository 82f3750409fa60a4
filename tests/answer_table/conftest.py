"""The answer table of both twins."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from tests.fastpath.twins import BOTH


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins: its module."""
    return importlib.import_module(request.param)
