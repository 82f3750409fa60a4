"""Makes DNS misbehave by rules, one on each line, in addition to the rules of the control API.

Path: step 5, after the plugins that count and log, before all plugins that answer, including `cache`; faults/ has the
rules.
Rule 1: a rule in the Corefile is active as long as the Corefile; `hsdns fault add` adds rules for a limited time.
Rule 2: a reload resets the counts, random choices and ages of the rules.
Cacheable: only if all rules are about the API server; the others must see each query.

Rules about kubernetes blocks, whose earlier states are kept, and whose requests to API servers fail, from when they are
added until they end; server/faults.py measures:
Rule 1: a rule that no block can apply is rejected with a sentence.
Rule 2: `holder` is the part of the program that has the rules; the needs of other parts do not change.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final, Self

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.properties import no_body
from hsdns.corefile.tree import Directive, did_you_mean
from hsdns.faults.dry_run import never_matches
from hsdns.faults.handler import NO_PODS, FaultHandler
from hsdns.faults.rules import Rule, RuleError, Rules, Wanted, hits_metric
from hsdns.faults.selector import NO_QUERY, ClientPod, PodOf, Zone
from hsdns.faults.state import StateAction, WatchAction, needs
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.k8s_external import K8sExternal
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.api_server import ApiServer
from hsdns.wire.message import Reply

NO_POD: Final = (
    'no kubernetes block knows pods; write "pods verified" in it, or "client ADDRESS" in the rule'
)


NO_LABELS: Final = 'no kubernetes block keeps the labels of pods; write "pods verified" in it and "metadata" beside it'


class Fault(Plugin):
    """The rules of a block; `wanted` has them with their directives, `zones` are the zones of its listeners."""

    def __init__(
        self, wanted: Sequence[tuple[Directive, Wanted]], zones: Sequence[Zone] = ()
    ) -> None:
        self._zones = zones
        self.cacheable = all(each.action.about != "query" for _, each in wanted)
        self._wanted = tuple(wanted)
        self._handlers: tuple[Handler, ...] = ()
        self._pod_of = NO_PODS
        # Until start(), for explanations without a server: these rules match like those of start(), except for random
        # choices.
        self.rules = Rules(Random(0), hits_metric(Registry()))
        for rule in self._make(0.0):
            self.rules.standing[rule.name] = rule
        self._handle = FaultHandler(self.rules, sleep, _no_lookup)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `fault ACTION [SELECTOR...] [OPTION...]`; each directive is a rule."""
        zones = [Zone(server, zone, ()) for server in block.servers for zone in block.zones]
        found = []
        for directive in directives:
            no_body(directive, may_be_empty=True)
            try:
                wanted = read_rule([token.text for token in directive.args], block.servers)
            except RuleError as error:
                place = directive.args[error.at] if directive.args else directive
                raise place.error(str(error)) from None
            if wanted.action.about not in ("query", "watch"):
                raise directive.error(
                    f'"{wanted.action.text}" is about more than the queries of a server block; '
                    "remove it, and use hsdns fault add"
                )
            if wanted.lifetime is not None:
                raise directive.error(
                    "a rule of the Corefile is active as long as the Corefile; "
                    'remove "for", write "before" for a time from the start, or use hsdns fault add'
                )
            if why := never_matches(wanted, zones):
                raise directive.error(f"the rule can never match: {why}")
            if wanted.name is None:
                wanted = wanted._replace(name=f"corefile-{directive.name.position.line}")
            found.append((directive, wanted))
        return cls(found, zones)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the kubernetes blocks, for the Pods of clients and the state of the cluster."""
        self._handlers = tuple(handlers)
        for directive, wanted in self._wanted:
            if why := why_never(wanted, handlers) or self._misses_cluster(wanted):
                raise directive.error(f"the rule can never match: {why}")
            if why := lacks_pods(wanted, handlers):
                raise directive.error(why)
        self._pod_of = pod_finder(handlers) or NO_PODS

    async def start(self, runtime: Runtime) -> None:
        """Activate the rules."""
        self.rules = Rules(runtime.random, hits_metric(runtime.metrics))
        for rule in self._make(runtime.clock()):
            self.rules.add(rule)
        hold(self, self.rules, self._handlers, runtime.clock)
        self._handle = FaultHandler(self.rules, sleep, runtime.resolve, self._pod_of)

    async def stop(self) -> None:
        """End the effects of the rules on the cluster."""
        release(self, self._handlers)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Apply the rules."""
        return await self._handle.handle(request, next)

    def foresee(self, request: Request) -> list[tuple[Rule, bool]]:
        """The rules that would hit a query, with True, and those that may; changes nothing."""
        return self._handle.foresee(request)

    def _misses_cluster(self, wanted: Wanted) -> str:
        """Why a rule about the state of the cluster matches no name of the cluster."""
        if not isinstance(wanted.action, StateAction):
            return ""
        zones = [each for zone in self._zones for each in cluster_zones(zone, self._handlers)]
        return never_matches(wanted, zones)

    def _make(self, now: float) -> Iterator[Rule]:
        for directive, wanted in self._wanted:
            try:
                yield self.rules.make(wanted, now, None, str(directive.name.position))
            except RuleError as error:
                raise directive.error(str(error)) from None


def pod_finder(plugins: Iterable[object]) -> PodOf | None:
    """A function that finds the Pod of an address; None if no kubernetes block has Pods."""
    blocks = [each for each in plugins if isinstance(each, Kubernetes) and each.knows_pods]
    if not blocks:
        return None

    def find(address: str) -> ClientPod | None:
        for pods in (each.store.pods for each in blocks):
            pod = pods.of_client(address)
            if pod is not None:
                return ClientPod(*pod, None if pods.labels is None else pods.labels.get(pod, {}))
        return None

    return find


def lacks_pods(wanted: Wanted, plugins: Iterable[object]) -> str:
    """Why no block can tell the Pods that a rule is about; "" if one can, or if it is about none."""
    words = {part.word for part in wanted.selector.parts()}
    known = [each.state.settings for each in blocks_of(plugins)]
    if words & {"pod", "labels"} and not any(each.pods for each in known):
        return NO_POD
    return NO_LABELS if "labels" in words and not any(each.pod_labels for each in known) else ""


async def _no_lookup(request: Request) -> Reply:
    raise AssertionError("started before it is asked")


def blocks_of(plugins: Iterable[object]) -> list[Kubernetes]:
    """The kubernetes blocks among plugins."""
    return [each for each in plugins if isinstance(each, Kubernetes)]


def why_never(wanted: Wanted, plugins: Sequence[object]) -> str:
    """Why a rule about the state or the watch of a cluster has no effect, "" if it has one or is about neither."""
    action, blocks = wanted.action, blocks_of(plugins)
    if isinstance(action, StateAction):
        return "" if blocks else "there is no kubernetes block, whose state it could be about"
    if not isinstance(action, WatchAction):
        return ""
    sources = [each.source for each in blocks]
    servers = [each for each in sources if isinstance(each, ApiServer)]
    if not servers:
        shown = ", ".join(dict.fromkeys(str(each) for each in sources)) or "nothing"
        return f"no kubernetes block watches an API server; what they read is {shown}"
    watched = dict.fromkeys(
        scope.resource.plural for each in servers for scope in each.options.scopes
    )
    if action.resource and action.resource not in watched:
        hint = did_you_mean(action.resource, watched) or f"; watched are {', '.join(watched)}"
        return f"{action.resource} are not watched{hint}"
    return ""


def cluster_zones(zone: Zone, plugins: Iterable[object]) -> list[Zone]:
    """The parts of a zone of a listener whose names are answered from a cluster, by these plugins of its block."""
    found = []
    for plugin in plugins:
        if isinstance(plugin, Kubernetes | K8sExternal):
            for apex in plugin.zones:
                if apex.is_at_or_below(zone.apex):
                    found.append(Zone(zone.server, apex, zone.deeper))
                elif zone.apex.is_at_or_below(apex):
                    found.append(zone)
    return found


def hold(
    holder: object, rules: Rules, plugins: Iterable[object], clock: Callable[[], float]
) -> None:
    """Make the blocks keep the states that the active rules need, and let the rules stop requests."""
    kept = needs(rules.about("query"))
    obstacles = [_RuleObstacle(rules, rule, clock) for rule in rules.about("watch")]
    for block in blocks_of(plugins):
        block.state.replaced.keep(holder, kept)
        if isinstance(block.source, ApiServer):
            block.source.obstacles.put(holder, obstacles)


def release(holder: object, plugins: Iterable[object]) -> None:
    """Undo hold()."""
    for block in blocks_of(plugins):
        block.state.replaced.keep(holder, ())
        if isinstance(block.source, ApiServer):
            block.source.obstacles.put(holder, ())


def behind(rule: Rule, plugins: Iterable[object], now: float) -> float | None:
    """The age of the oldest change that a rule withholds, 0 for none; None if the rule is not about the state."""
    if not isinstance(rule.action, StateAction):
        return None
    moment = rule.action.moment(rule.begun, now)
    if moment is None:
        return 0.0
    firsts = [each.state.replaced.first_after(moment) for each in blocks_of(plugins)]
    return max((now - first for first in firsts if first is not None), default=0.0)


class _RuleObstacle:
    """Makes requests to an API server fail by a rule."""

    def __init__(self, rules: Rules, rule: Rule, clock: Callable[[], float]) -> None:
        assert isinstance(rule.action, WatchAction), "about a watch"
        self._rules, self._rule, self._action, self._clock = rules, rule, rule.action, clock

    @property
    def status(self) -> int:
        return self._action.status

    @property
    def by(self) -> str:
        return f'by the rule "{self._rule.name}" of fault'

    def stops(self, resource: str, request: str) -> bool:
        if not self._action.is_about(resource):
            return False
        return self._rules.stop(self._rule, resource, request, self._clock())

    def cuts(self, resource: str) -> bool:
        rule, now = self._rule, self._clock()
        is_now = rule.selector.foresee(NO_QUERY, now - rule.begun) is True
        return is_now and not rule.is_over(now) and self.stops(resource, "watch")

    def next_change(self) -> float | None:
        age = self._clock() - self._rule.begun
        times = [part.seconds for part in self._rule.selector.parts()]
        return min((each - age for each in times if each > age), default=None)
