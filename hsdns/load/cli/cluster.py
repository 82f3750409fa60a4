"""The cluster of a load test: its names, its right answers and its changes, in a separate thread.

Path: load.py -> here -> hsdns/cli/offline.py (the kubernetes block, started without ports), verify/truth.py,
cluster/churn.py.
Rule: everything about the cluster runs in this thread; other threads read what verify/truth.py has recorded.

The part of a load test that follows changes until each server shows them:
Rule: without -verify, or with -probes 0, no change is followed, and no process is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from hsdns.assemble import Configuration
from hsdns.cli.command import complain
from hsdns.cli.offline import WAIT, CannotTell, kubernetes_blocks, started, wait_for_clusters
from hsdns.cluster.value import Key
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT
from hsdns.load.cluster.churn import NAMESPACE, Churn, OwnNamespace, Rates, Size
from hsdns.load.cluster.job import ApiWriter
from hsdns.load.cluster.names import cluster_targets
from hsdns.load.errors import LoadError
from hsdns.load.pods import PodPlan, check_names, resolv_confs
from hsdns.load.questions import ABSENT, Question, Questions
from hsdns.load.verify.follow import Event, Follower
from hsdns.load.verify.prober_process import Place, ProberProcess
from hsdns.load.verify.propagation import Propagation
from hsdns.load.verify.truth import BEAT, Truth
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver.forwarders import class_of
from hsdns.sources.api_access import ApiAccess
from hsdns.sources.api_server import ApiServer
from hsdns.sources.synthetic import Synthetic
from hsdns.wire.encode import encode_query

if TYPE_CHECKING:
    from hsdns.load.cli.settings import LoadSettings
    from hsdns.load.results import PropagationReport
    from hsdns.server.runtime import ServerRuntime
    from hsdns.wire.message import Query

_SERVER: Final = "192.0.2.53"  # in the resolv.confs; queries go to --server anyway
PODS_OF_NODE: Final = 110  # the kubelet's maxPods
PATIENCE: Final = 60.0  # seconds for the cluster
SILENT: Final = 3.0  # seconds of the preparation after which its steps are told
SWITCH_INTERVAL: Final = 0.0005  # seconds that another thread may hold the interpreter
Choose = Callable[[Sequence[Kubernetes]], Questions | Awaitable[Questions]]
T = TypeVar("T")


@dataclass(eq=False)
class LoadCluster:
    """The cluster of a configuration; a context manager that raises LoadError or CannotTell.

    `choose` makes the questions once the cluster is read.  `serves` is host and port for other servers to watch a
    simulated cluster.  `within` are namespaces to read of a cluster whose user may not list all of it.  All plugins
    but those in `without` run; by default those of clusters alone do.
    """

    configuration: Configuration
    choose: Choose
    _: KW_ONLY
    verifies: bool
    serves: tuple[str, int] | None = None
    changes_api: bool = False
    kinds: Mapping[str, int] = field(default_factory=DEFAULT.copy)
    seed: int = 1
    within: Sequence[str] = ()
    without: Collection[str] | None = None

    def __post_init__(self) -> None:
        self.questions: Questions
        self.runtime: ServerRuntime
        self.truth: Truth | None = None
        self.api: ClusterApi | None = None
        self.awaited: Question | None = None  # one that a server answers once it has the cluster
        self.failure = ""  # why changes ended
        self._churn: Churn | None = None
        self._follower: Follower | None = None
        self._changing: asyncio.Task[None] | None = None
        self._own: OwnNamespace | None = None
        self._ready: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)
        self._began = time.monotonic()

    def start(self) -> None:
        """Begin to read the cluster; entering waits until it is read."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._thread.start()

    def __enter__(self) -> LoadCluster:
        if self._thread.ident is None:
            self.start()
        try:
            self._ready.result()
        except BaseException:
            self.__exit__()  # everything created so far is removed
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._cancel)
        if self._ready.done() or self._own is not None:  # else nothing has to be removed
            self._thread.join()

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the cluster's thread."""
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result()

    def told(self) -> dict[str, dict[str, list[str]]]:
        """What istiod tells its agents after the changes since the last call."""
        pods, truth, found = self.questions.pods, self.truth, list[Key]()
        if pods is None or truth is None or not class_of(pods.through).captures:
            return {}
        while truth.changed:
            found.append(truth.changed.pop())
        return truth.block.registry(pods.domain, found)

    def follow(self, rate: float, ask: Callable[[Event], bool]) -> Follower:
        """From now on, follow changes with at most `rate` probes per second; calls `ask` in the cluster's thread."""
        truth = self.truth
        assert truth is not None, "made to verify"
        follower = Follower(truth.expected, truth.by_service(), rate, ask, time.monotonic)
        self._follower, truth.follow = follower, follower.changed
        return follower

    @contextlib.contextmanager
    def churning(self, rates: Rates) -> Iterator[None]:
        """Change the cluster at `rates` until the context ends; where all are 0 it is left alone."""
        changing = (
            asyncio.run_coroutine_threadsafe(self._change(rates), self._loop)
            if any(rate for _, rate in rates)
            else None
        )
        try:
            yield
        finally:
            if changing is not None:
                changing.cancel()

    async def _change(self, rates: Rates) -> None:
        self._changing = asyncio.current_task()
        try:
            if self._own is not None:
                await self._own.run(rates)
            elif self._churn is not None and self.api is not None:
                await self._churn.run(self.api, rates)
        except* LoadError as group:
            self.failure = f"the changes ended: {group.exceptions[0]}"

    def _written(self, version: str, time: float) -> None:
        if self._follower is not None:
            self._follower.written(version, time)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)

    def _tell(self, sentence: str) -> None:
        if (passed := time.monotonic() - self._began) > SILENT:
            complain(f"{sentence} ({passed:.0f} s)")

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _live(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        blocks = kubernetes_blocks(self.configuration, self.within)
        if not blocks:
            raise CannotTell(
                f"{self.configuration.corefile.path}: there is no kubernetes block, so there is no cluster"
            )
        plugins = self.configuration.plugins if self.without is not None else blocks
        chosen = [each for each in plugins if each.name not in (self.without or ())]
        async with started(self.configuration, chosen) as runtime:
            self.runtime = runtime
            writer: ApiWriter | None = None
            try:
                await wait_for_clusters(runtime, blocks, is_whole=not self.within, limit=PATIENCE)
                self._tell(
                    f"{sum(len(each.store.services.values) for each in blocks)} Services are read"
                )
                if self.changes_api:
                    writer = _writer(_only(blocks))
                    await self._make_namespace(_only(blocks), writer)
                questions = self.choose(blocks)
                self.questions = questions if isinstance(questions, Questions) else await questions
                self.awaited = self._first()
                self._tell(f"{len(self.questions.all)} questions are there")
                if self.verifies:
                    grows = self.questions.pods is not None
                    self.truth = Truth(
                        _only(blocks),
                        self.questions.all,
                        time.monotonic,
                        grows=grows,
                        leads=self.serves is not None,
                        known=self.questions.known,
                    )
                    self._tell("their right answers are known")
                if self.serves is not None:
                    await self._open_api(_only(blocks), *self.serves)
                self._ready.set_result(None)
                while True:
                    if self.truth is not None:
                        self.truth.beat()
                    await asyncio.sleep(BEAT)
            finally:
                if self._changing is not None:
                    self._changing.cancel()
                    await asyncio.gather(self._changing, return_exceptions=True)
                if self._own is not None:
                    await self._own.remove()
                if writer is not None:
                    await writer.close()
                if self.api is not None:
                    await self.api.stop()

    def _first(self) -> Question | None:
        """A question that a server answers once it has the cluster; None if the cluster existed before."""
        if self._own is None and self.serves is None:
            return None
        own = f".{self._own.name}." if self._own is not None else "."
        there = (each for each in self.questions.all if each.group != ABSENT)
        return next((each for each in there if own in each.name.to_text()), None)

    async def _make_namespace(self, block: Kubernetes, writer: ApiWriter) -> None:
        """Create a separate namespace, and wait until the watch has it; raise LoadError."""
        name = f"{NAMESPACE}-{secrets.token_hex(4)}"
        own = OwnNamespace(
            writer, name, Size(), self.kinds, self.seed, time.monotonic, self._written
        )
        self._own = own
        await own.make()
        complain(f"the namespace of the changes is {name}")
        deadline = time.monotonic() + WAIT
        values = block.store.services.values
        while (
            sum(key[0] == name.encode() and bool(value.slices) for key, value in values.items())
            < Size().services
        ):
            if time.monotonic() > deadline:
                raise LoadError(
                    f"--churn-api: the watch has not seen the namespace {name} within {WAIT:g} s; "
                    "does the kubernetes block select namespaces or labels?"
                )
            await asyncio.sleep(BEAT)

    async def _open_api(self, block: Kubernetes, host: str, port: int) -> None:
        source = block.source
        if not isinstance(source, Synthetic) or source.changes:
            raise LoadError(
                "--api serves a simulated cluster: add --source synthetic, without changes; --churn makes them"
            )
        self._churn = Churn(
            source.shape, self.kinds, self.seed, block.watch.deliver, time.monotonic, self._written
        )
        self.api = ClusterApi(self._churn.history, host, port)
        await self.api.start()


def _writer(block: Kubernetes) -> ApiWriter:
    """The writer for the API server that a block watches; raise LoadError."""
    source = block.source
    connect = source.connect if isinstance(source, ApiServer) else None
    if not isinstance(connect, ApiAccess):
        raise LoadError(
            "--churn-api changes a cluster that is watched at its API server: remove --source, and name with --conf "
            "a Corefile whose kubernetes block has kubeconfig or endpoint, or neither inside of a cluster"
        )
    try:
        return ApiWriter(connect.source(time.monotonic, time.time, lambda sentence: None))
    except ValueError as error:
        raise LoadError(f"--churn-api: {error}") from None


def _only(blocks: Sequence[Kubernetes]) -> Kubernetes:
    if len(blocks) > 1:
        raise LoadError(
            f"--verify and --api need one kubernetes block, but the Corefile has {len(blocks)}; leave one in it"
        )
    return blocks[0]


class Following(NamedTuple):
    """Processes the messages of the prober; without one it does nothing."""

    prober: ProberProcess | None = None
    propagation: Propagation | None = None

    def take(self) -> None:
        """Process new messages."""
        if self.prober is not None and self.propagation is not None:
            for kind, content in self.prober.messages(0):
                self.propagation.take(kind, content)

    def report(self, server: int, begin: float, seconds: float) -> PropagationReport | None:
        """The report of a server, given by its index, in a run that began at `begin`; None if nothing was followed."""
        found = self.propagation
        return None if found is None else found.report(server, begin, begin + seconds)


@contextlib.contextmanager
def following_changes(
    settings: LoadSettings,
    cluster: LoadCluster | None,
    places: Sequence[Place],
    queries: Sequence[Query],
) -> Iterator[Following]:
    """Follow changes at the rate of -probes until the context ends; raise LoadError."""
    truth = cluster.truth if cluster is not None else None
    if cluster is None or truth is None or not settings.probes:
        yield Following()
        return
    octets = [encode_query(each, 0)[2:] for each in queries]
    with ProberProcess(places, octets) as prober:
        follower = cluster.follow(settings.probes, prober.follow)

        def done(event: int, left: int) -> None:
            prober.done(event)
            follower.done(left)

        propagation = Propagation(
            truth, queries, follower.events, len(places), settings.flags.slack, done
        )
        yield Following(prober, propagation)
        truth.follow = lambda key, state, time, version: None


def pod_plan(settings: LoadSettings, blocks: Sequence[Kubernetes]) -> PodPlan:
    """The pods of -pods, and the names that they look up; raise LoadError."""
    flags, count = settings.flags, settings.flags.pods or 0
    if len(blocks) != 1:
        raise LoadError(
            f"--pods needs one kubernetes block, but the Corefile has {len(blocks)}; leave one in it"
        )
    answer_set = blocks[0].answer_set()
    zone, targets, weights = cluster_targets(
        answer_set, flags.external, settings.mix, flags.zipf, flags.seed
    )
    domain = zone.to_text().rstrip(".")
    namespaces = sorted(label.decode("latin-1") for label in answer_set.exposed_namespaces())
    namespaces = namespaces[:count]
    options = dict(each.partition(":")[::2] for each in flags.resolv_options)
    plan = PodPlan(
        count,
        namespaces,
        resolv_confs(namespaces, _SERVER, domain, flags.node_search, options),
        domain,
        flags.resolvers,
        flags.forms_,
        targets,
        weights,
        flags.seed,
        flags.through,
        min(count, flags.nodes or ceil(count / PODS_OF_NODE)),
        blocks[0].registry(domain) if class_of(flags.through).captures else {},
    )
    check_names(plan)
    return plan
