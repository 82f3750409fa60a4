"""Makes DNS misbehave by rules, one on each line, in addition to the rules of the control door.

Path: step 5, after the plugins that count and log, before all plugins that answer, including `cache`; faults/ has the
rules.
Rule 1: a rule in the Corefile is active as long as the Corefile; `hsdns fault add` adds rules for a limited time.
Rule 2: a reload resets the counts, random choices and ages of the rules.
Cacheable: only if all rules are about the API server; the others must see each query.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final, Self

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.properties import no_body
from hsdns.corefile.tree import Directive
from hsdns.faults.dry_run import never_matches
from hsdns.faults.handler import NO_PODS, FaultHandler
from hsdns.faults.rules import Rule, RuleError, Rules, Wanted, hits_metric
from hsdns.faults.selector import PodOf, Zone
from hsdns.faults.state import StateAction
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.kubernetes.faults import cluster_zones, hold, release, why_never
from hsdns.wire.message import Reply

NO_POD: Final = (
    'no kubernetes block knows pods; write "pods verified" in it, or "client ADDRESS" in the rule'
)


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
                    "a rule of the Corefile stands as long as the Corefile; "
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
        pod_of = pod_finder(handlers)
        if pod_of is not None:
            self._pod_of = pod_of
            return
        for directive, wanted in self._wanted:
            if needs_pods(wanted):
                raise directive.error(NO_POD)

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

    def foresee(self, request: Request) -> str:
        """Describe what the rules would do to a query; changes nothing."""
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

    def find(address: str) -> tuple[bytes, str] | None:
        found = (each.store.pods.of_client(address) for each in blocks)
        return next((pod for pod in found if pod is not None), None)

    return find


def needs_pods(wanted: Wanted) -> bool:
    """Whether a rule has a `pod` selector."""
    return any(part.word == "pod" for part in wanted.selector.parts())


async def _no_lookup(request: Request) -> Reply:
    raise AssertionError("started before it is asked")
