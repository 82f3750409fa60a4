"""A cluster for each test, and the rows of calls.txt."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from hsdns.testing import Cluster, Service
from tests.support.tables import columns


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def web(cluster: Cluster) -> Service:
    return cluster.service("web", headless=True, ports={"http": 8080}).endpoints(
        "10.0.0.1", "10.0.0.2"
    )


def calls(section: str) -> list[ParameterSet]:
    """The rows of a section, each a call as Python, and what it gives."""
    return columns(Path(__file__).with_name("calls.txt"), section)
