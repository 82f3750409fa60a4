"""Snapshot file: the last known state of a cluster, for a start without an API server.

Path: load() -> Store.restore at the start; Store -> cluster/snapshot.py -> save_periodically() afterwards.
Rule 1: the file is replaced atomically: written to a temporary file, fsynced, renamed; mode 0600.
Rule 2: an unusable file is a warning and never stops the start; a failed write is retried.
Rule 3: only a state that the source delivered is saved, never one that was restored from the file.
Rule 4: the file is served only if this user or root has written it, since its content becomes answers.  The opened file
        is checked, not its path, so that it cannot be exchanged in between.
Rule 5: text is made on the event loop in pieces of PIECE octets, about a millisecond each, and written in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import IO, Any, Final

import hsdns
from hsdns.cluster import snapshot
from hsdns.cluster.objects import Object
from hsdns.cluster.source import Report, Surroundings
from hsdns.cluster.store import Store
from hsdns.metrics import Registry

FIRST_SECONDS: Final = 10.0  # from the first sync to the first save
PAUSE_SECONDS: Final = 60.0  # minimum between two saves
LOOK_SECONDS: Final = 1.0  # polling interval until the store is synced
PIECE: Final = 32 * 1024  # octets
LEFT_OVER_SECONDS: Final = 600.0  # age at which a temporary file is considered abandoned

Sleep = Callable[[float], Awaitable[None]]


class SnapshotFile:
    """A snapshot at a path; it is loaded only if `settings` are the same as when it was saved."""

    def __init__(
        self,
        path: str,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.path = path
        self.settings = dict(settings)
        self._sleep = sleep
        self._saved_changes: int | None = None
        self._is_failing = False

    def load(self, report: Report) -> tuple[Iterator[Object], float] | None:
        """Return the objects, decoded lazily, and the time of saving; report why and return None if there are none."""
        with ExitStack() as opened:
            try:
                file = opened.enter_context(open(self.path, "rb", opener=_open_at_once))
                header = self._check(file, report)
            except FileNotFoundError:
                report(logging.INFO, f'snapshot "{self.path}": it does not exist yet')
                return None
            except IsADirectoryError:
                why = "it is not a file; starting without it, the next save replaces it"
            except OSError as fault:
                why = f"it cannot be read: {fault.strerror}; starting without it"
            except snapshot.BadSnapshot as fault:
                why = f"{fault}; starting without it, the next save replaces it"
            else:
                opened.pop_all()  # _objects() closes it
                return _objects(file), header.saved
        report(logging.WARNING, f'snapshot "{self.path}": {why}')
        return None

    def _check(self, file: IO[bytes], report: Report) -> snapshot.Header:
        """Return the header of an opened file; raise BadSnapshot."""
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise snapshot.BadSnapshot("it is not a file")
        for path in {self.path, os.path.realpath(self.path)}:
            if why := why_untrusted(status, os.stat(os.path.dirname(path) or "."), os.geteuid()):
                raise snapshot.BadSnapshot(why)
        if status.st_mode & 0o077:
            report(
                logging.WARNING,
                f'snapshot "{self.path}": other users have access to it '
                f"(mode {status.st_mode & 0o777:04o}); give it mode 0600",
            )
        header = snapshot.check(file)
        different = {name for name, _ in header.settings.items() ^ self.settings.items()}
        if different:
            raise snapshot.BadSnapshot(
                f"it was saved with other settings ({', '.join(sorted(different))})"
            )
        written = datetime.fromtimestamp(header.saved, UTC).isoformat(" ", "seconds")
        report(
            logging.INFO,
            f'snapshot "{self.path}": serving the state of {written}, saved by hsdns {header.version}, '
            "until the cluster has been read",
        )
        return header

    def show_serving(self, metrics: Registry, store: Store) -> None:
        """Set the metric that shows whether answers come from the snapshot; to be called after each change."""
        is_serving = 0.0 if store.restored is None else 1.0
        metrics.gauge("hsdns_kubernetes_snapshot_serving", ("path",)).set(is_serving, (self.path,))

    async def save_periodically(self, store: Store, report: Report, around: Surroundings) -> None:
        """Save after the first sync, then whenever the store has changed, and once more when cancelled."""
        try:
            while not store.synced:
                await self._sleep(LOOK_SECONDS)
            await self._sleep(FIRST_SECONDS)
            while True:
                await _uninterrupted(self._save_if_changed(store, report, around))
                await self._sleep(PAUSE_SECONDS)
        finally:
            await self._save_if_changed(store, report, around)

    async def _save_if_changed(self, store: Store, report: Report, around: Surroundings) -> None:
        changes = store.changes
        if not store.synced or changes == self._saved_changes:
            return
        saved = around.wall()
        try:
            await self._save(store, saved)
        except OSError as fault:
            if not self._is_failing:
                self._is_failing = True
                report(
                    logging.ERROR,
                    f'snapshot "{self.path}": it cannot be written: {fault.strerror or fault}; retrying every '
                    f"{PAUSE_SECONDS:g} seconds; correct its folder or remove the property",
                )
            return
        if self._is_failing:
            self._is_failing = False
            report(logging.INFO, f'snapshot "{self.path}": it can be written again')
        self._saved_changes = changes
        around.metrics.gauge("hsdns_kubernetes_snapshot_saved_timestamp_seconds", ("path",)).set(
            saved, (self.path,)
        )

    async def _save(self, store: Store, saved: float) -> None:
        pieces = snapshot.pieces(
            store, version=hsdns.__version__, saved=saved, settings=self.settings
        )
        file = await asyncio.to_thread(self._create)
        try:
            text = bytearray()
            for piece in pieces:
                text += piece
                if len(text) >= PIECE:
                    await asyncio.to_thread(file.write, bytes(text))
                    text.clear()
            await asyncio.to_thread(self._finish, file, bytes(text))
        except BaseException:
            with suppress(OSError):
                os.unlink(file.name)
            with suppress(OSError):  # closing flushes, which fails after a failed write
                file.close()
            raise

    def _create(self) -> IO[bytes]:
        folder, name = os.path.split(self.path)
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - _finish() closes it, or _save() where that is not reached
            dir=folder or ".", prefix=f".{name}.", suffix=".tmp", delete=False
        )
        now = os.fstat(file.fileno()).st_mtime
        # Remove the temporary files of processes that were killed.
        with os.scandir(folder or ".") as found:
            for each in found:
                if each.name.startswith(f".{name}.") and each.name.endswith(".tmp"):
                    with suppress(OSError):
                        if now - each.stat().st_mtime > LEFT_OVER_SECONDS:
                            os.unlink(each.path)
        return file

    def _finish(self, file: IO[bytes], rest: bytes) -> None:
        file.write(rest)
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(file.name, self.path)
        folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def why_untrusted(file: os.stat_result, folder: os.stat_result, user: int) -> str:
    """Why another user may have written a file in a folder, as a part of a sentence; "" if only `user` or root may.

    A group may write the folder, as that of a volume with fsGroup: what others of it put there belongs to them.
    """
    if file.st_uid not in (user, 0):
        return (
            f"it belongs to user {file.st_uid}, and this process runs as user {user}, so it cannot be trusted; "
            "delete it, or change its owner"
        )
    if file.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"other users may write it (mode {file.st_mode & 0o777:04o}), so it cannot be trusted; give it mode 0600, "
            "and a Pod with fsGroup the fsGroupChangePolicy OnRootMismatch"
        )
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return (
            f"every user may replace it, since its folder has mode {stat.S_IMODE(folder.st_mode):04o}, so it cannot "
            "be trusted; take the right to write from others, or set the sticky bit"
        )
    return ""


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _objects(file: IO[bytes]) -> Iterator[Object]:
    with file:
        file.seek(0)
        yield from snapshot.objects(file)


async def _uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Complete `work` even if cancelled in the meantime, because a write in a thread cannot be cancelled."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
