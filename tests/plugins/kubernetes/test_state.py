"""The state of a cluster for blocks with the same settings."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hsdns.cluster.objects import Namespace, ObjectMeta, Synced, Upserted
from hsdns.cluster.store import StoreSettings
from hsdns.plugins.kubernetes.state import ClusterState
from hsdns.sources.snapshot_file import SnapshotFile
from tests.support.plugins.runtime import FakeRuntime


def report(level: int, message: str) -> None:
    logging.getLogger("hsdns.test").log(level, message)


def begun(snapshot: SnapshotFile | None = None) -> ClusterState:
    state = ClusterState(StoreSettings(), snapshot)
    state.begin(FakeRuntime(), report)
    return state


def test_it_serves_once_the_cluster_has_been_read() -> None:
    state = ClusterState(StoreSettings())
    assert not state.serves
    state.begin(FakeRuntime(), report)
    state.apply([Upserted(Namespace(ObjectMeta(name="shop")))])
    assert (state.serves, state.names.has_namespace(b"shop")) == (False, True)
    state.apply([Synced()])
    assert (state.serves, state.names.open) == (True, True)


@pytest.mark.parametrize(
    ("settings", "path", "is_like"),
    [
        (StoreSettings(), None, True),
        (StoreSettings(), "a.json", False),
        (StoreSettings(zonal=True), None, False),
    ],
)
def test_one_stands_for_another_with_the_same_settings_and_snapshot(
    settings: StoreSettings, path: str | None, is_like: bool
) -> None:
    snapshot = None if path is None else SnapshotFile(path)
    one, other = ClusterState(StoreSettings()), ClusterState(settings, snapshot)
    assert one.is_like(other) is other.is_like(one) is is_like


def test_a_damaged_snapshot_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text("nonsense\n")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        state = begun(SnapshotFile(str(path)))
    assert not state.serves
    assert "starting without it" in caplog.text
