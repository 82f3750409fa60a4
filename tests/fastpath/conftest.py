"""Fixtures: a test with `twin` runs on both twins, a test with `server` on every kind of batch."""

import importlib
from collections.abc import Iterator

import pytest

from hsdns.fastpath.batch import PortableBatch
from tests.fastpath.servers import KINDS, PORTABLE, Server
from tests.fastpath.twins import PYTHON


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
