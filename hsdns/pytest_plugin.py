"""The fixtures of hsdns for pytest: hsdns_cluster, and the same for a module and for a session.

Path: pytest loads it by the entry point pytest11 -> testing/.
Rule 1: nothing is imported until a test uses a fixture: every run of pytest loads this module.
Rule 2: pytest rewrites the assertions of all packages that come with a plugin; hsdns is imported as ever, which takes
        half the time.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from hsdns.testing import Cluster

FIXTURES: Final = ("hsdns_cluster", "hsdns_module_cluster", "hsdns_session_cluster")
MOST_SHOWN: Final = 20  # queries of a cluster
MARKER: Final = (
    "hsdns_cluster(*manifests, demo=False, ttl=30): "
    "what the fixtures of hsdns start with, as in hsdns.testing.Cluster"
)


class PlainFinder:
    """Finds the modules of hsdns before pytest's own finder does (Rule 2)."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Find a module as without pytest."""
        return PathFinder.find_spec(name, path) if name.startswith("hsdns.") else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Put the finder in place before a file of the tests is imported."""
    sys.meta_path.insert(0, PlainFinder)


def pytest_unconfigure() -> None:
    """Take the finder away."""
    if PlainFinder in sys.meta_path:
        sys.meta_path.remove(PlainFinder)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show what a fault did, and what came in, where a number of hits is not the expected one."""
    module: Any = sys.modules.get("hsdns.testing.fault")  # Rule 1
    for side in (left, right):
        if module is not None and isinstance(side, module.Hits):
            return [f"{left!r} {op} {right!r}", *side.fault.report()]
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what its clusters were asked last."""
    report = yield
    used = getattr(item, "funcargs", {}) if report.when == "call" and report.failed else {}
    for name in FIXTURES:
        if name in used and len(used[name].queries):
            lines = [str(each) for each in used[name].queries[-MOST_SHOWN:]]
            report.sections.append((f"Last queries of {name}", "\n".join(lines)))
    return report


@pytest.fixture
def hsdns_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The DNS of a cluster of its own for each test (hsdns.testing.Cluster)."""
    yield from _cluster(request)


@pytest.fixture(scope="module")
def hsdns_module_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The DNS of one cluster for the tests of a module (hsdns.testing.Cluster)."""
    yield from _cluster(request)


@pytest.fixture(scope="session")
def hsdns_session_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The DNS of one cluster for all tests (hsdns.testing.Cluster)."""
    yield from _cluster(request)


def _cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    from hsdns.testing import Cluster  # noqa: PLC0415 - Rule 1

    node: Any = request.node
    marker = node.get_closest_marker("hsdns_cluster")
    args, keywords = (marker.args, marker.kwargs) if marker is not None else ((), {})
    with Cluster(*args, **keywords) as cluster:
        yield cluster
