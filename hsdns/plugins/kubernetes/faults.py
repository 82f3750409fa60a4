"""Applies rules of `fault` to kubernetes blocks: earlier states are kept, requests to API servers fail.

Path: plugins/fault.py and server/faults.py, when rules are added or end -> here -> cluster/history.py and
apiserver/transport.py of the blocks; server/faults.py measures.
Rule 1: a rule that no block can apply is rejected with a sentence.
Rule 2: `holder` is the part of the program that has the rules; the needs of other parts do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hsdns.corefile.tree import did_you_mean
from hsdns.faults.rules import Rule, Rules, Wanted
from hsdns.faults.selector import NO_QUERY, Zone
from hsdns.faults.state import StateAction, WatchAction, needs
from hsdns.plugins.k8s_external import K8sExternal
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.api_server import ApiServer


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
