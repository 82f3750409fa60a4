"""Fixtures: a test with `twin` runs on both twins, a test with `server` on every kind of batch."""

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest

from hsdns.fastpath.batch import PortableBatch
from tests.fastpath.servers import KINDS, PORTABLE, Server
from tests.fastpath.twins import BOTH, PYTHON


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins: its module."""
    return importlib.import_module(request.param)


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each kind; its socket is not bound yet."""
    if request.param == PORTABLE:
        found = Server(importlib.import_module(PYTHON), PortableBatch)
    else:
        module = importlib.import_module(request.param)
        found = Server(module, module.Batch)
    yield found
    found.close()
