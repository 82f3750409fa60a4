"""The snapshot file: errors when it is loaded, and when it is saved."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import hsdns
from hsdns.cluster.objects import Synced
from hsdns.cluster.snapshot import pieces
from hsdns.cluster.store import Store, StoreSettings
from hsdns.sources import snapshot_file as module
from hsdns.sources.snapshot_file import FIRST_SECONDS, PAUSE_SECONDS, SnapshotFile
from tests.support.cluster.objects import endpoint_slice, namespace, pod, service, upserts
from tests.support.coroutines.event_loops import LOOPS, run
from tests.support.plugins.runtime import FakeRuntime

SAVED = 1_700_000_000.0


class Listener:
    """Records reports."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def __call__(self, level: int, message: str) -> None:
        self.said.append((logging.getLevelName(level), message))


def make_store(*, synced: bool = True) -> Store:
    """A store with contents."""
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(upserts(namespace("ns"), service("ns/web", "10.96.0.1"), endpoint_slice("ns/web-1", "web", "10.0.0.1")))  # fmt: skip
    if synced:
        store.apply([Synced()])
    return store


def write(path: Path, **settings: str) -> bytes:
    """Write a valid file, as save_periodically() would."""
    text = b"".join(pieces(make_store(), version="9.9", saved=SAVED, settings=settings))
    path.write_bytes(text)
    path.chmod(0o600)
    return text


# --- load ---


def cut(path: Path) -> None:
    path.write_bytes(write(path)[:-60])


def fill(path: Path, text: str = "apiVersion: v1\n") -> None:
    path.touch(0o600)
    path.write_text(text)


@pytest.mark.parametrize(
    ("prepare", "level", "sentence"),
    [
        pytest.param(lambda path: None, "INFO", "it does not exist yet", id="missing"),
        pytest.param(cut, "WARNING", "its end is missing; starting without it, the next save replaces it", id="cut"),
        pytest.param(fill, "WARNING", "its first line is not that of a snapshot; starting without it, the next save replaces it", id="other-file"),
        pytest.param(lambda path: fill(path, ""), "WARNING", "it is empty; starting without it, the next save replaces it", id="empty"),
        pytest.param(Path.mkdir, "WARNING", "it is not a file; starting without it, the next save replaces it", id="folder"),
        pytest.param(lambda path: path.symlink_to(path), "WARNING", "it cannot be read: Too many levels of symbolic links; starting without it", id="unreadable"),
        pytest.param(
            lambda path: (write(path), path.chmod(0o602)), "WARNING",
            "other users may write it (mode 0602), so it cannot be trusted; give it mode 0600, "
            "and a Pod with fsGroup the fsGroupChangePolicy OnRootMismatch; starting without it, the next save replaces it",
            id="too-open-to-use",
        ),
        pytest.param(
            lambda path: (write(path), path.parent.chmod(0o777)), "WARNING",
            "every user may replace it, since its folder has mode 0777, so it cannot be trusted; take the right to write "
            "from others, or set the sticky bit; starting without it, the next save replaces it",
            id="folder-too-open",
        ),
        pytest.param(lambda path: os.mkfifo(path, 0o600), "WARNING", "it is not a file; starting without it, the next save replaces it", id="pipe"),
        pytest.param(
            lambda path: write(path, labels="app=web", pods="verified"), "WARNING",
            "it was saved with other settings (labels, pods); starting without it, the next save replaces it", id="settings",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, prepare: Callable[[Path], object], level: str, sentence: str
) -> None:
    path, listener = tmp_path / "snapshot.json", Listener()
    prepare(path)
    assert SnapshotFile(str(path)).load(listener) is None
    assert listener.said == [(level, f'snapshot "{path}": {sentence}')]


def status(mode: int, user: int) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, user, user, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("file", "folder", "why"),
    [
        pytest.param(status(0o600, 53), status(0o700, 53), "", id="own"),
        pytest.param(status(0o600, 0), status(0o755, 0), "", id="of-root"),
        pytest.param(status(0o600, 53), status(0o1777, 0), "", id="sticky-folder"),
        pytest.param(status(0o600, 53), status(0o2775, 0), "", id="folder-of-a-group"),  # as with fsGroup
        pytest.param(status(0o600, 54), status(0o1777, 0), "it belongs to user 54, and this process runs as user 53, ", id="of-another"),
        pytest.param(status(0o602, 53), status(0o700, 53), "other users may write it (mode 0602), ", id="writable"),
        pytest.param(status(0o660, 53), status(0o700, 53), "other users may write it (mode 0660), ", id="writable-for-its-group"),
        pytest.param(status(0o660, 0), status(0o2770, 0), "other users may write it (mode 0660), ", id="of-fsGroup"),
        pytest.param(status(0o600, 53), status(0o777, 0), "every user may replace it, since its folder has mode 0777, ", id="folder"),
    ],
)  # fmt: skip
def test_trust(file: os.stat_result, folder: os.stat_result, why: str) -> None:
    found = module.why_untrusted(file, folder, 53)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_the_opened_file_is_served_not_the_path(tmp_path: Path) -> None:
    """Another user who exchanges the file after it was checked gains nothing."""
    path = tmp_path / "snapshot.json"
    write(path)
    found = SnapshotFile(str(path)).load(Listener())
    assert found is not None
    path.rename(tmp_path / "moved")
    fill(path, "[]")
    assert len(list(found[0])) == 3


def test_a_file_that_others_can_access_causes_a_warning(tmp_path: Path) -> None:
    path, listener = tmp_path / "snapshot.json", Listener()
    write(path)
    path.chmod(0o640)
    found = SnapshotFile(str(path)).load(listener)
    assert found is not None
    assert len(list(found[0])) == 3
    assert listener.said[0] == (
        "WARNING",
        f'snapshot "{path}": other users have access to it (mode 0640); give it mode 0600',
    )


# --- keep ---


class Script:
    """Replaces asyncio.sleep(): records the seconds, runs the next step, and cancels the sleeper after the last one."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = iter(steps)
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        step = next(self.steps, None)
        if step is None:
            raise asyncio.CancelledError
        step()


def keep(
    path: Path, store: Store, *steps: Callable[[], object], loop: str = "asyncio"
) -> tuple[Script, Listener, FakeRuntime]:
    """Save a store while the script runs."""
    script, listener, around = Script(*steps), Listener(), FakeRuntime()

    async def test() -> None:
        file = SnapshotFile(str(path), store.settings.to_texts(), sleep=script)
        with pytest.raises(asyncio.CancelledError):
            await file.save_periodically(store, listener, around)

    run(test(), loop)
    return script, listener, around


def names_in(path: Path) -> list[str]:
    """The Services of a file."""
    found = SnapshotFile(str(path)).load(Listener())
    if found is None:
        return []
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.restore(*found)
    return sorted(name.decode() for _, name in store.services.values)


def nothing() -> None:
    """Let time pass."""


@pytest.mark.parametrize("loop", LOOPS)
def test_it_is_saved_after_the_first_sync_and_after_changes(tmp_path: Path, loop: str) -> None:
    path, store = tmp_path / "snapshot.json", make_store(synced=False)
    seen: list[object] = []

    def look() -> None:
        seen.append(path.stat().st_mtime_ns if path.exists() else None)

    def sync() -> None:
        look()
        store.apply([Synced()])

    def change() -> None:
        look()
        store.apply(upserts(service("ns/db")))

    script, listener, around = keep(path, store, look, sync, look, look, change, look, loop=loop)
    assert script.pauses == [1.0, 1.0, FIRST_SECONDS, *[PAUSE_SECONDS] * 4]
    before, at_sync, ten_after, saved, unchanged, again = seen
    assert (before, at_sync, ten_after) == (None, None, None)
    assert saved == unchanged != again
    assert names_in(path) == ["db", "web"]
    assert listener.said == []
    gauge = around.metrics.gauge("hsdns_kubernetes_snapshot_saved_timestamp_seconds", ("path",))
    assert gauge.values == {(str(path),): around.wall_time}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["snapshot.json"]
    assert hsdns.__version__.encode() in path.read_bytes().splitlines()[0]


def test_it_is_saved_once_more_at_the_end_if_it_changed(tmp_path: Path) -> None:
    path, store = tmp_path / "snapshot.json", make_store()
    keep(path, store, nothing, lambda: store.apply(upserts(service("ns/last"))))
    assert names_in(path) == ["last", "web"]
    untouched = path.stat().st_mtime_ns
    keep(path, store, nothing)
    assert path.stat().st_mtime_ns != untouched  # another start does not know what the file holds
    keep(path, make_store())
    assert names_in(path) == ["web"]


def test_what_was_only_restored_is_not_saved(tmp_path: Path) -> None:
    path, store = (
        tmp_path / "snapshot.json",
        Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail),
    )
    store.restore([service("ns/old")], 900.0)
    keep(path, store, nothing, nothing)
    assert not path.exists()


def test_errors_are_reported_once_and_saving_is_retried(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    path, store = folder / "snapshot.json", make_store()
    _, listener, _ = keep(path, store, nothing, nothing, nothing, folder.mkdir, nothing)
    assert listener.said == [
        ("ERROR", f'snapshot "{path}": it cannot be written: No such file or directory; retrying every 60 seconds; correct its folder or remove the property'),
        ("INFO", f'snapshot "{path}": it can be written again'),
    ]  # fmt: skip
    assert names_in(path) == ["web"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "snapshot.json"
    before = write(path)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    store = make_store()
    store.apply(upserts(service("ns/new")))
    _, listener, around = keep(path, store, nothing)
    assert [level for level, _ in listener.said] == ["ERROR"]
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["snapshot.json"]
    assert list(around.metrics) == []


@pytest.mark.parametrize("cancelled_at", range(4))
async def test_a_cancelled_save_is_completed(
    tmp_path: Path, cancelled_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = tmp_path / "snapshot.json", make_store()
    store.apply(upserts(*(service(f"ns/s-{number}") for number in range(1000))))
    in_thread, calls = asyncio.to_thread, count()
    tasks: list[asyncio.Task[None]] = []

    async def to_thread(function: Callable[..., object], *arguments: object) -> object:
        if next(calls) == cancelled_at:
            tasks[0].cancel()
            store.apply(upserts(service("ns/last")))
        return await in_thread(function, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    file = SnapshotFile(str(path), sleep=Script(nothing))
    tasks.append(asyncio.create_task(file.save_periodically(store, Listener(), FakeRuntime())))
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
    assert next(calls) > 4
    assert "last" in names_in(path)
    assert os.listdir(tmp_path) == ["snapshot.json"]


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    old, new, other = (tmp_path / name for name in (".snapshot.json.a.tmp", ".snapshot.json.b.tmp", ".x.tmp"))  # fmt: skip
    for each in (old, new, other):
        each.touch()
    for each in (old, other):
        os.utime(each, (0, 0))
    keep(path, make_store(), nothing)
    assert {each.name for each in tmp_path.iterdir()} == {path.name, new.name, other.name}


def test_pieces_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    async def to_thread(function: Callable[..., object], *arguments: object) -> object:
        sizes.extend(len(each) for each in arguments if isinstance(each, bytes))
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    path, store = tmp_path / "snapshot.json", make_store()
    store.apply(upserts(*(pod(f"ns/p-{number}", "10.0.0.1") for number in range(3000))))
    keep(path, store, nothing)
    assert sum(sizes) == path.stat().st_size > 4 * module.PIECE
    assert max(sizes) < module.PIECE + 1024
