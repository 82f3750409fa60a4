"""The source `manifests PATH...`: a cluster written down in files.

Path: files -> manifest_file (documents) -> cluster/controllers (objects) -> deliver, the difference only.
Rule 1: at the start the good files are served and the broken ones reported; later, one broken file holds back the whole
        reload, and what was served before goes on.
Rule 2: files are read and compared in a thread, delivered on the loop, in one batch.
Rule 3: a change is looked for twice: the system's notices for speed, a look every two seconds for what gives
        none (links that are swapped, network file systems).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import NamedTuple, Self

from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Pod,
    Service,
    ServiceImport,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.corefile.tree import CorefileError, Token
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.sources.manifest_folder import (
    Fingerprint,
    concerns,
    fingerprint,
    manifest_paths,
    missing_paths,
)

POLL_SECONDS = 2.0
_BLANK = b" \t\r\n\xef\xbb\xbf\xff\xfe\0"  # white space and byte order marks
_Key = tuple[type[Object], str, str]


class _Reading(NamedTuple):
    """What the files held at one time; each sentence comes with its level."""

    objects: list[Object]
    sentences: list[tuple[int, str]]
    fingerprint: Fingerprint
    filled: frozenset[str]  # the files that hold objects

    @property
    def good(self) -> bool:
        """Whether every file could be read."""
        return all(level < logging.ERROR for level, _ in self.sentences)


def _nothing_in(paths: Sequence[str]) -> str:
    return (
        f"source manifests: {' '.join(paths)}: no object of a cluster is in it, so no name of the cluster exists; "
        "is it the right path, and were the templates of a chart rendered?"
    )


class Manifests:
    """Files and folders of YAML and JSON, watched.

    `poll_seconds` is the time between looks at the files, `notices` whether the system's notices are used too.
    """

    def __init__(
        self, paths: Sequence[str], *, poll_seconds: float = POLL_SECONDS, notices: bool = True
    ) -> None:
        self.paths = tuple(paths)
        self._poll_seconds = poll_seconds
        self._notices = notices
        self._versions: dict[_Key, str] = {}
        self._fingerprint: Fingerprint = ()
        self._filled: frozenset[str] = frozenset()
        self._synced = False

    def __str__(self) -> str:
        """The source and its paths."""
        return f"manifests {' '.join(self.paths)}"

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Take the paths; raise CorefileError where there is none."""
        if not args:
            raise CorefileError(
                name.position,
                f'source "{name.text}" needs at least one file or folder; add its path',
            )
        for token in args:
            if not token.text:
                raise CorefileError(
                    token.position,
                    f'source "{name.text}" has an empty path; write a file or folder',
                )
        return cls([os.path.normpath(os.path.join(base_dir, token.text)) for token in args])

    def check(self) -> list[str]:
        """Name the paths that are missing or hold nothing to read; load() says so too."""
        return missing_paths(self.paths) + [
            f'source manifests: folder "{path}" holds no .yaml, .yml or .json file; add one or correct the path'
            for path in self.paths
            if os.path.isdir(path) and not manifest_paths([path])
        ]

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver what the good files hold, then Synced; where there are only faults, that waits for a correction."""
        reading = self._read()
        for level, sentence in reading.sentences:
            report(level, sentence)
        self._fingerprint = reading.fingerprint
        self._filled = reading.filled
        self._synced = reading.good or bool(reading.objects)
        deliver([*self._difference(reading.objects), *([Synced()] if self._synced else [])])

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver the difference whenever files change."""
        noticed = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            if self._notices:
                tasks.create_task(self._wait_for_notices(noticed, report))
            is_held_back = False
            while True:
                try:
                    async with asyncio.timeout(self._poll_seconds):
                        await noticed.wait()
                    noticed.clear()
                except TimeoutError:
                    if await asyncio.to_thread(fingerprint, self.paths) == self._fingerprint:
                        continue
                reading = await asyncio.to_thread(self._read)
                self._fingerprint = reading.fingerprint
                for level, sentence in reading.sentences:
                    report(level, sentence)
                if not reading.good:
                    report(
                        logging.WARNING,
                        "source manifests: nothing of this change is used until it is corrected",
                    )
                    is_held_back = True
                    continue
                if is_held_back:
                    is_held_back = False
                    report(logging.INFO, "source manifests: corrected; the files are used again")
                self._filled = reading.filled
                events = self._difference(reading.objects)
                if not self._synced:
                    self._synced = True
                    events.append(Synced())
                if events:
                    deliver(events)

    def silence(self, now: float) -> float:
        """Never unsure: what the files said last holds until they say something else."""
        return 0.0

    def _read(self) -> _Reading:
        # Taken first: what changes while the files are read is then seen as a change.
        state = fingerprint(self.paths)
        sentences = [(logging.ERROR, sentence) for sentence in missing_paths(self.paths)]
        documents: list[Document] = []
        filled: set[str] = set()
        for path in manifest_paths(self.paths):
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except OSError as fault:
                sentences.append(
                    (
                        logging.ERROR,
                        f"{path}: cannot be read: {fault.strerror}; correct its permissions",
                    )
                )
                continue
            if path in self._filled and not content.strip(_BLANK):
                # What `kubectl get ... > FILE` does first: the file is cut to nothing, long before it is written.
                sentences.append(
                    (
                        logging.ERROR,
                        f"{path}:1: the file is empty now; write its objects, or delete it to drop them",
                    )
                )
                continue
            found = read_manifest_file(content, path)
            if found.documents:
                filled.add(path)
            sentences += [(logging.ERROR, problem) for problem in found.problems]
            if not found.problems:
                documents += found.documents
        objects = simulate(
            documents, lambda sentence: sentences.append((logging.WARNING, sentence))
        )
        if not objects and not sentences:
            sentences.append((logging.WARNING, _nothing_in(self.paths)))
        return _Reading(objects, sentences, state, frozenset(filled))

    def _difference(self, objects: Sequence[Object]) -> list[Event]:
        """Compare with what was delivered before, by version, and remember."""
        versions = {_key(each): each.metadata.resource_version for each in objects}
        before, self._versions = self._versions, versions
        events: list[Event] = [
            Upserted(each)
            for each in objects
            if before.get(_key(each)) != each.metadata.resource_version
        ]
        events += [Deleted(_stub(key)) for key in before if key not in versions]
        return events

    async def _wait_for_notices(self, noticed: asyncio.Event, report: Report) -> None:
        # These imports take 50 ms, which queries should not wait for.
        for module in ("watchfiles", "anyio._backends._asyncio"):
            await asyncio.to_thread(import_module, module)
        async with asyncio.TaskGroup() as tasks:
            for folders, recursive in self._watched_folders():
                if folders:
                    tasks.create_task(self._pass_on(folders, recursive, noticed, report))

    def _watched_folders(self) -> Iterator[tuple[list[str], bool]]:
        """Folders, and whether what is below them counts."""
        yield sorted({path for path in self.paths if os.path.isdir(path)}), True
        # A file is watched by its folder: editors put a new file in the place of the old one.
        parents = {os.path.dirname(path) or "." for path in self.paths if not os.path.isdir(path)}
        yield sorted(path for path in parents if os.path.isdir(path)), False

    async def _pass_on(
        self, folders: Sequence[str], recursive: bool, noticed: asyncio.Event, report: Report
    ) -> None:
        from watchfiles import awatch  # noqa: PLC0415  # imported in a thread above

        try:
            async for _ in awatch(
                *folders,
                recursive=recursive,
                watch_filter=lambda _, path: concerns(path, self.paths),
                debounce=400,
                ignore_permission_denied=True,
            ):
                noticed.set()
        except (OSError, RuntimeError) as fault:
            report(
                logging.WARNING,
                f"source manifests: the system gives no notices of changed files ({fault}); "
                f"they are looked at every {self._poll_seconds:g} seconds",
            )


def _key(each: Object) -> _Key:
    return type(each), each.metadata.namespace, each.metadata.name


def _stub(key: _Key) -> Object:
    """Make an object that says which one is gone and no more."""
    kind, namespace, name = key
    metadata = ObjectMeta(name=name, namespace=namespace)
    if kind is Service:
        return Service(metadata)
    if kind is EndpointSlice:
        return EndpointSlice(metadata)
    if kind is Namespace:
        return Namespace(metadata)
    if kind is ServiceImport:
        return ServiceImport(metadata)
    return Pod(metadata)
