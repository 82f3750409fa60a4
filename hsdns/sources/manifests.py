"""The source `manifests PATH...`: a cluster described by files.

Path: files, or standard input ("-") -> manifest_file (documents) -> cluster/controllers (objects) -> deliver, only the
differences.
Rule 1: an object that is refused is reported, and all others are served, as `kubectl apply` would do it: if it was
        valid before, it stays as it was.  What is no YAML or JSON is left out at the start; later it blocks the whole
        reload, and the last valid state is still served.
Rule 2: files are read and compared in a thread; changes are delivered on the event loop in one batch.
Rule 3: changes are found by file notifications and by polling: some changes cause no notification (swapped links,
        network file systems).
Rule 4: a warning is not repeated as long as its reason lasts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Self

from hsdns.cluster.controllers.document import Document, two_clusters
from hsdns.cluster.controllers.kinds import Endpoints, PodManifest, Workload
from hsdns.cluster.controllers.simulation import running_pods, simulate
from hsdns.cluster.controllers.workload import has_ended
from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Identity,
    Namespace,
    Object,
    Service,
    Synced,
    Upserted,
    identity,
    stub,
)
from hsdns.cluster.source import (
    Deliver,
    Lead,
    ObjectIndex,
    PodReading,
    PodUnreadable,
    Reading,
    Report,
    Surroundings,
)
from hsdns.corefile.tree import Token, did_you_mean
from hsdns.sources.file_text import read_file
from hsdns.sources.manifest_file import RefusedObject, read_manifest_file
from hsdns.sources.manifest_folder import (
    NAME,
    STANDARD_INPUT,
    Fingerprint,
    fingerprint,
    is_relevant,
    manifest_paths,
    missing_paths,
    settings_remark,
    standard_input,
    was_read,
)

if TYPE_CHECKING:
    from hsdns.causes.view import View

# A pod from manifests, or one that a workload in them would have.
#
# Rule: the files are read again: a source of manifests keeps only what DNS needs.


def read_pod(paths: Sequence[str], namespace: str, name: str) -> PodReading:
    """Find a pod in files and folders; raise PodUnreadable."""
    from hsdns.sources.client_pod import AroundPod, cluster_dns_in, pod_reading  # noqa: PLC0415 - explanations' only

    documents: list[Document] = []
    kubelets = ""
    try:
        for each in manifest_paths(paths):
            if each == STANDARD_INPUT:
                given = standard_input()
                documents += given.documents if given is not None else []
                continue
            content = read_file(each)
            documents += read_manifest_file(content, each).documents
            kubelets = kubelets or cluster_dns_in(content, each)
    except OSError as error:
        raise PodUnreadable(f"{error.filename}: cannot be read: {error.strerror}") from None
    pods = {
        f"{pod.manifest.metadata.namespace}/{pod.manifest.metadata.name}": pod
        for pod in running_pods(documents)
    }
    path = f"{namespace}/{name}"
    if path not in pods:
        raise PodUnreadable(f"the source has no pod {path}{did_you_mean(path, pods)}")
    found = pods[path]
    return pod_reading(found.manifest, found.addresses, AroundPod(documents, "", kubelets))


# What may stand behind the Services of a namespace, in the state that is served.
#
# Rule: files without pods, workloads and slices describe no endpoints, so nothing about these is known.


def view_of(documents: Sequence[Document], namespace: str = "") -> View:
    """The Services, workloads and pods of the documents, of one namespace if it is given.

    Pods are those that would run, and those that have ended.
    """
    from hsdns.causes.view import ENDPOINTS, PODS, SLICES, View  # noqa: PLC0415 - explanations' only

    objects = [each.object for each in documents]
    written = EndpointSlice | Endpoints
    needs = (
        (PODS, Workload | PodManifest),
        (SLICES, Workload | PodManifest | written),
        (ENDPOINTS, written),
    )
    unknown = {
        plural: "there are none in the files"
        for plural, kinds in needs
        if not any(isinstance(each, kinds) for each in objects)
    }
    near = [each for each in documents if each.namespace in ("", namespace) or not namespace]
    # Of other namespaces, what a selector may mean there.
    shown = (
        (each.kind, each.object)
        for each in documents
        if not isinstance(each.object, PodManifest) or each not in near or has_ended(each.object)
    )
    view = View(shown, unknown)
    view.add(("Pod", each.manifest) for each in running_pods(near))
    return view


POLL_SECONDS = 2.0
Key = tuple[str, str, str]  # of a document: kind, namespace and name


def text(label: bytes) -> str:
    """A label as text."""
    return label.decode("utf-8", "replace")


class _Reading(NamedTuple):
    """The state of the files at one time; each sentence has its log level.  `is_whole`: every file could be read."""

    objects: list[Object]
    sentences: list[tuple[int, str]]
    fingerprint: Fingerprint
    nonempty: frozenset[str]  # the files that contain objects
    by_lead: ObjectIndex  # made in the thread
    documents: Mapping[Key, Document]
    refused: Sequence[RefusedObject]
    is_whole: bool


def _nothing_in(paths: Sequence[str]) -> str:
    shown = " ".join(NAME if path == STANDARD_INPUT else path for path in paths)
    return (
        f"source manifests: {shown}: it contains no Kubernetes object, so the cluster has no names; "
        "is it the right path, and were the templates of a chart rendered?"
    )


class Manifests:
    """Files and folders of YAML and JSON, watched.

    `poll_seconds` is the polling interval; `notifications` enables file notifications.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        poll_seconds: float = POLL_SECONDS,
        notifications: bool = True,
    ) -> None:
        self.paths = tuple(paths)
        self._poll_seconds = poll_seconds
        self._notifications = notifications
        self._versions: dict[Identity, str] = {}
        self._index = ObjectIndex()
        self._fingerprint: Fingerprint = ()
        self._nonempty: frozenset[str] = frozenset()
        self._documents: Mapping[Key, Document] = {}  # the state that is served
        self._refused: Sequence[RefusedObject] = ()
        self._is_whole = False
        self._warned: frozenset[str] = frozenset()
        self._synced = False

    def __str__(self) -> str:
        """Return the name of the source and its paths."""
        return f"manifests {' '.join(self.paths)}"

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Check the paths; raise CorefileError if there are none, one is empty, or "-" was not read before."""
        if not args:
            raise name.error(
                f'source "{name.text}" needs at least one file or folder; add its path'
            )
        for token in args:
            if not token.text:
                raise token.error(f'source "{name.text}" has an empty path; write a file or folder')
            if token.text == STANDARD_INPUT and not was_read():
                raise token.error(
                    '"-", standard input, is for the command line: "COMMAND | hsdns serve --source manifests -"; '
                    'for a file of that name write "./-"'
                )
        return cls([_normalised(token.text, base_dir) for token in args])

    def check(self) -> list[str]:
        """Report paths that do not exist and folders without manifests; load() reports them too."""
        found = missing_paths(self.paths)
        for path in self.paths:
            remarks: list[str] = []
            if os.path.isdir(path) and not manifest_paths([path], remarks) and not remarks:
                found.append(
                    f'source manifests: folder "{path}" holds no .yaml, .yml or .json file; add one or correct the path'
                )
            found += remarks
        return found

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the objects of the valid files, then Synced; if no file is valid, Synced waits for a correction."""
        reading = self._read()
        self._warned, self._synced = frozenset(), False
        self._report_new(reading, report)
        deliver(self._accept(reading))

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver the differences whenever files change, until cancelled."""
        notified = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            if self._notifications:
                tasks.create_task(self._wait_for_notifications(notified, report))
            is_blocked = False
            while True:
                try:
                    async with asyncio.timeout(self._poll_seconds):
                        await notified.wait()
                    notified.clear()
                except TimeoutError:
                    if await asyncio.to_thread(fingerprint, self.paths) == self._fingerprint:
                        continue
                reading = await asyncio.to_thread(self._read)
                self._report_new(reading, report)
                if not reading.is_whole:
                    report(
                        logging.WARNING,
                        "source manifests: still serving the last valid state until the errors are corrected",
                    )
                    is_blocked = True
                    continue
                if is_blocked:
                    is_blocked = False
                    report(
                        logging.INFO,
                        "source manifests: the errors are corrected; serving the files again",
                    )
                if events := self._accept(reading):
                    deliver(events)

    def _report_new(self, reading: _Reading, report: Report) -> None:
        """Report what the last reading did not have, and what blocks this one."""
        self._fingerprint = reading.fingerprint
        for level, sentence in reading.sentences:
            is_blocking = level >= logging.ERROR and not reading.is_whole
            if is_blocking or sentence not in self._warned:
                report(level, sentence)
        self._warned = frozenset(sentence for _, sentence in reading.sentences)

    def _accept(self, reading: _Reading) -> list[Event]:
        """Serve a state; return the differences from the one before, and Synced once something can be served."""
        self._nonempty, self._index = reading.nonempty, reading.by_lead
        self._documents, self._refused = reading.documents, reading.refused
        self._is_whole = reading.is_whole
        events = self._difference(reading.objects)
        is_valid = reading.is_whole and not reading.refused
        if not self._synced and (is_valid or reading.objects):
            self._synced = True
            events.append(Synced())
        return events

    @property
    def refusals(self) -> frozenset[str]:
        """The sentences about objects with a name and a namespace; none if another part could not be read."""
        return frozenset(
            each.sentence for each in self._refused if self._is_whole and all(each.key)
        )

    async def read(self, lead: Lead) -> Reading:
        """Find the objects for a question in the state that is served."""
        found = self._index.find(lead)
        return Reading(tuple(found), refused=tuple(self._refused_of(lead, found)))

    def _refused_of(self, lead: Lead, found: Sequence[Object]) -> Iterator[str]:
        """Sentences about the refused objects behind the Services of a question."""
        names = {(text(namespace), text(name)) for namespace, name in lead.services}
        selectors = {
            each.metadata.namespace: each.spec.selector
            for each in found
            if isinstance(each, Service) and each.spec.selector
        }
        for each in self._refused:
            namespace = each.key[1]
            selector = selectors.get(namespace)
            is_named = any((namespace, name) in names for name in each.services)
            if is_named or (selector and selector.items() <= each.labels.items()):
                is_said = f"{each} is " in each.sentence
                reason = each.sentence.replace(f"{each}: ", "")
                yield reason if is_said else f"{each} is refused: {reason}"

    async def read_view(self, namespace: str, selector: Mapping[str, str]) -> View:
        """Find what may stand behind a Service in the state that is served."""
        return await asyncio.to_thread(view_of, list(self._documents.values()), namespace)

    async def read_pod(self, namespace: str, name: str) -> PodReading:
        """Read a pod from the current files; raise PodUnreadable."""
        return await asyncio.to_thread(read_pod, self.paths, namespace, name)

    def silence(self, now: float) -> float:
        """Always 0: the files are the authority, so the state is never outdated."""
        return 0.0

    def _read(self) -> _Reading:
        # Taken first, so that a change while the files are read is detected afterwards.
        state = fingerprint(self.paths)
        sentences = [(logging.ERROR, sentence) for sentence in missing_paths(self.paths)]
        refused: list[RefusedObject] = []
        is_whole = not sentences
        documents: list[Document] = []
        nonempty: set[str] = set()
        remarks: list[str] = []
        for path in manifest_paths(self.paths, remarks):
            if path == STANDARD_INPUT:
                given = standard_input()
                if given is not None:
                    documents += given.documents
                    refused += given.refused
                    sentences += [(logging.ERROR, problem) for problem in given.problems]
                    sentences += [(logging.WARNING, warning) for warning in given.warnings]
                continue
            try:
                content = read_file(path)
            except OSError as fault:
                sentences.append((logging.ERROR, f"{path}: cannot be read: {fault.strerror}"))
                is_whole = False
                continue
            if path in self._nonempty and not content.strip():
                # `kubectl get ... > FILE` truncates the file long before it writes it.
                sentences.append(
                    (
                        logging.ERROR,
                        f"{path}:1: the file is now empty; write its objects, or delete it to remove them",
                    )
                )
                is_whole = False
                continue
            if path not in self._nonempty:  # otherwise it may be half written
                remark = settings_remark(content, path, self.paths)
                if remark:
                    remarks.append(f"source manifests: {remark}")
                    continue
            found = read_manifest_file(content, path)
            if found.documents:
                nonempty.add(path)
            sentences += [(logging.ERROR, problem) for problem in found.problems]
            sentences += [(logging.WARNING, warning) for warning in found.warnings]
            documents += found.documents
            refused += found.refused
            is_whole = is_whole and not found.is_broken
        namespaces = (each for each in documents if isinstance(each.object, Namespace))
        if mixed := two_clusters(
            (each.name, each.object.metadata.uid, each.where) for each in namespaces if each.object
        ):
            documents, refused, is_whole = [], [], False
            sentences = [(logging.ERROR, mixed)]
        by_key = {each.key: each for each in documents}
        for each in refused:
            if each.key in self._documents and each.key not in by_key:
                kept = self._documents[each.key]
                documents.append(kept)
                by_key[each.key] = kept
                sentences.append((logging.WARNING, f"{each} is still served as it was before"))
        sentences += [(logging.WARNING, remark) for remark in remarks]
        objects = simulate(
            documents, lambda sentence: sentences.append((logging.WARNING, sentence))
        )
        if not objects and not sentences:
            sentences.append((logging.WARNING, _nothing_in(self.paths)))
        return _Reading(
            objects, sentences, state, frozenset(nonempty), ObjectIndex(objects), by_key, refused,
            is_whole,
        )  # fmt: skip

    def _difference(self, objects: Sequence[Object]) -> list[Event]:
        """Return the differences from the objects delivered before, by resource version."""
        versions = {identity(each): each.metadata.resource_version for each in objects}
        before, self._versions = self._versions, versions
        events: list[Event] = [
            Upserted(each)
            for each in objects
            if before.get(identity(each)) != each.metadata.resource_version
        ]
        events += [Deleted(stub(key)) for key in before if key not in versions]
        return events

    async def _wait_for_notifications(self, notified: asyncio.Event, report: Report) -> None:
        # These imports take 50 ms, which must not delay queries.
        for module in ("watchfiles", "anyio._backends._asyncio"):
            await asyncio.to_thread(import_module, module)
        async with asyncio.TaskGroup() as tasks:
            for folders, recursive in self._watched_folders():
                if folders:
                    tasks.create_task(self._forward(folders, recursive, notified, report))

    def _watched_folders(self) -> Iterator[tuple[list[str], bool]]:
        """Yield folders, and whether to watch them recursively."""
        yield sorted({path for path in self.paths if os.path.isdir(path)}), True
        # A file is watched through its folder, because editors replace the file.
        parents = {
            os.path.dirname(path) or "."
            for path in self.paths
            if path != STANDARD_INPUT and not os.path.isdir(path)
        }
        yield sorted(path for path in parents if os.path.isdir(path)), False

    async def _forward(
        self, folders: Sequence[str], recursive: bool, notified: asyncio.Event, report: Report
    ) -> None:
        from watchfiles import awatch  # noqa: PLC0415  # imported in a thread above

        try:
            async for _ in awatch(
                *folders,
                recursive=recursive,
                watch_filter=lambda _, path: is_relevant(path, self.paths),
                debounce=400,
                ignore_permission_denied=True,
            ):
                notified.set()
        except (OSError, RuntimeError) as fault:
            report(
                logging.WARNING,
                f"source manifests: file notifications are not available ({fault}); "
                f"polling every {self._poll_seconds:g} seconds",
            )


def _normalised(path: str, base_dir: str) -> str:
    if path == STANDARD_INPUT:
        return path
    found = os.path.normpath(os.path.join(base_dir, path))
    return os.path.join(".", found) if found == STANDARD_INPUT else found
