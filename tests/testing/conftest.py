"""A cluster for each test."""

from collections.abc import Iterator

import pytest

from hsdns.testing import Cluster

ADDRESSES = ("10.0.0.1", "10.0.0.2")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster
