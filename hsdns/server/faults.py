"""The rules of the control door: added while the server runs, in force in each configuration, ended by time.

Path: control/faults.py calls it; lifecycle.py has it put the rules into the server blocks that they may be about, each
time the processors of an instance are made.
Rule 1: only blocks that a rule may be about get its handler, and so lose the answer table; the others are as before.
Rule 2: an expired rule decides nothing (faults/rule.py); the timer here gives its blocks the answer table back.
Rule 3: the rules outlive a reload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final

from hsdns.assemble import AssembledBlock, Configuration
from hsdns.faults.flow import Flow
from hsdns.faults.handler import NO_PODS, FaultHandler
from hsdns.faults.possible import never_matches
from hsdns.faults.rule import Rule, RuleError, Wanted
from hsdns.faults.rules import Rules, hits_metric
from hsdns.faults.selector import Zone
from hsdns.faults.state import StateAction
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugins.fault import NO_POD, Fault, needs_pods, pod_finder
from hsdns.plugins.kubernetes.faults import cluster_zones, hold, why_never
from hsdns.server.runtime import ServerRuntime

LIFETIME: Final = 600.0  # seconds, of a rule that says nothing else


class StandingFaults:
    """The rules of a process.

    `rebuild` has the processors of the instance that serves made anew; `clock` gives monotonic seconds, `call_later`
    calls a function after some seconds.  `configurations` are those that run.
    """

    def __init__(
        self,
        metrics: Registry,
        clock: Callable[[], float],
        rebuild: Callable[[], None],
        random: Random | None = None,
        call_later: Callable[[float, Callable[[], None]], Any] | None = None,
        configurations: Callable[[], Iterable[Configuration]] = tuple,
    ) -> None:
        self.rules = Rules(Random() if random is None else random, hits_metric(metrics))
        self.rules.on_spent = self._spent
        self._clock, self._rebuild, self._call_later = clock, rebuild, call_later
        self._configurations = configurations
        self._timer: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def place(self, configuration: Configuration, runtime: ServerRuntime) -> None:
        """Put the rules into the blocks of a configuration that they may be about, and only there."""
        handler = FaultHandler(
            self.rules,
            asyncio.sleep,
            runtime.resolve,
            pod_finder(configuration.plugins) or NO_PODS,
        )
        hold(self, self.rules, configuration.plugins, self._clock)
        touched = self._touched(configuration)
        for block in configuration.blocks:
            if id(block) not in touched:
                block.put_fault(None)
            elif block.fault is None:
                block.put_fault(handler)

    def is_placed(self, configuration: Configuration) -> bool:
        """Whether place() would change nothing."""
        touched = self._touched(configuration)
        return all(
            (block.fault is not None) == (id(block) in touched) for block in configuration.blocks
        )

    def add(self, words: Sequence[str], configuration: Configuration) -> Rule:
        """Have a rule stand from now on; raise RuleError."""
        self.rules.expire(self._clock())
        servers = [served.listen.server for served in configuration.listeners]
        wanted = read_rule(words, servers)
        if needs_pods(wanted) and pod_finder(configuration.plugins) is None:
            raise RuleError(NO_POD)
        rule = self.rules.make(wanted, self._clock(), LIFETIME)
        zones = [zone for zone, _ in _zones_for(wanted, configuration)]
        why = why_never(wanted, configuration.plugins) or never_matches(
            wanted._replace(lifetime=rule.lifetime), zones
        )
        if why:
            raise RuleError(f"the rule can never match: {why}")
        self.rules.add(rule)
        self._change()
        return rule

    def remove(self, name: str, configuration: Configuration) -> Rule:
        """End a rule; raise RuleError."""
        for rules in corefile_rules(configuration):
            if name in rules.standing and name not in self.rules.standing:
                place = rules.standing[name].place
                raise RuleError(f'the rule "{name}" is written at {place}; remove it there')
        rule = self.rules.remove(name)
        self._change()
        return rule

    def clear(self) -> list[Rule]:
        """End all rules."""
        found = self.rules.clear()
        self._change()
        return found

    def look(self) -> None:
        """End the rules that are over."""
        self.rules.expire(self._clock())
        self._change()

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _change(self) -> None:
        """After a change: the clusters, the processors, and when to look again."""
        for configuration in self._configurations():
            hold(self, self.rules, configuration.plugins, self._clock)
        self._rebuild()
        end = self.rules.next_end
        if end is None:
            self.close()
        else:
            self._look_in(max(end - self._clock(), 0.0))

    def _spent(self) -> None:
        """A rule has bitten as often as it may; one about a watch tells it in another thread."""
        if self._loop is None:
            self._look_in(0.0)
        else:
            self._loop.call_soon_threadsafe(self._look_in, 0.0)

    def _look_in(self, seconds: float) -> None:
        self.close()
        call_later = self._call_later
        if call_later is None:
            self._loop = asyncio.get_running_loop()
            call_later = self._loop.call_later
        self._timer = call_later(seconds, self.look)

    def _touched(self, configuration: Configuration) -> set[int]:
        return {
            id(block)
            for rule in self.rules.about("query")
            for zone, blocks in _zones_for(rule, configuration)
            if rule.selector.touches(zone)
            for block in blocks
        }


def corefile_rules(configuration: Configuration) -> list[Rules]:
    """The rules of the directives, in the order of the Corefile."""
    return [each.rules for each in configuration.plugins if isinstance(each, Fault)]


def _zones_for(
    rule: Rule | Wanted, configuration: Configuration
) -> Iterator[tuple[Zone, Sequence[AssembledBlock]]]:
    """Those that a rule is about: for one about the state of the cluster, those with names of it.

    One that must see all five-tuples is about all.
    """
    sees_all = any(isinstance(part, Flow) for part in rule.selector.parts())
    if sees_all or not isinstance(rule.action, StateAction):
        yield from _zones(configuration)
        return
    for zone, blocks in _zones(configuration):
        for block in blocks:
            for part in cluster_zones(zone, block.plugins):
                yield part, [block]


def _zones(configuration: Configuration) -> Iterator[tuple[Zone, Sequence[AssembledBlock]]]:
    """The zones of all listeners with their blocks that have handlers."""
    for served in configuration.listeners:
        for apex, blocks in served.served.items():
            if any(block.handlers for block in blocks):
                deeper = [
                    zone for zone in served.served if zone != apex and zone.is_at_or_below(apex)
                ]
                yield Zone(served.listen.server, apex, deeper), blocks
