"""The rules of the control API: added at run time, active in each configuration, and ended by time.

Path: control/faults.py calls it; whenever the processors of an instance are made, lifecycle.py lets it add the rules to
the server blocks that they may apply to.
Rule 1: only blocks that a rule may apply to get its handler, and with it lose their answer table; all other blocks stay
        unchanged.  Listeners apply the rules about connections and misses themselves, so these rules take no block's
        answer table.
Rule 2: an expired rule has no effect (faults/rules.py); the timer here gives its blocks their answer table back.
Rule 3: rules survive a reload.

A metric: how old the answers are that rules of `fault` cause, compared with the newest state of the cluster.

Connections that a rule of faults makes fail: refused, hung, slow, or reset in the middle of a reply:
Rule 1: the rules decide when the client has connected.  A connection that no rule matches behaves like any other from
        then on.
Rule 2: `refuse` and `reset` send RST, as the kernel does for a socket that closes with SO_LINGER 0 (tcp(7)).  The
        server has accepted the connection before, so a refused client gets ECONNRESET instead of ECONNREFUSED.
Rule 3: `slow` imitates a slow network: the connection has passed on its octets already, so none of its timeouts counts
        them.

Restarts the process for rules of faults: at given times, or whenever too many queries are pending:
Rule 1: a rule is hit when it kills the process.  It stays active until the process runs again, so that removing the
        rule starts the process at once.
Rule 2: only one restart runs at a time; others that are due wait for it.  A restart that had to wait for a reload
        checks afterwards whether its rule still requires it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, Protocol, cast

from hsdns.answer_table.capabilities import Forwards
from hsdns.assemble import AssembledBlock, Configuration
from hsdns.chain import Endpoint, has
from hsdns.faults.action import ConnectionAction, Restart
from hsdns.faults.dry_run import never_matches
from hsdns.faults.handler import NO_PODS, FaultHandler
from hsdns.faults.rules import Bite, Rule, RuleError, Rules, Wanted, hits_metric
from hsdns.faults.selector import Asked, Flow, PodOf, Zone
from hsdns.faults.state import StateAction
from hsdns.faults.words import read_rule
from hsdns.metrics import Registry
from hsdns.plugins.fault import (
    Fault,
    behind,
    cluster_zones,
    hold,
    lacks_pods,
    pod_finder,
    why_never,
)
from hsdns.server.instance import Instance, State
from hsdns.server.runtime import ServerRuntime
from hsdns.server.transport.admission import ListenerFaults
from hsdns.server.transport.connection import Layer
from hsdns.server.transport.sockets import endpoint_of
from hsdns.server.transport.tcp import DnsConnection, TcpListener

Decide = Callable[[str, Endpoint, Endpoint], Sequence[Bite]]
Lifted = Callable[[], bool]
# Seconds between two pieces of a slow connection, if a piece has at least one octet.
TICK: Final = 0.1
HIGH: Final = 262_144  # octets waiting to be sent slowly, above which the connection writes no more
# Seconds between two checks: of what is not sent, and of the number of pending queries.
POLL: Final = 0.01
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class FaultyConnection(asyncio.Protocol):
    """A newly accepted connection; `decide` applies the rules to a server, a client and the local address."""

    def __init__(self, listener: TcpListener, decide: Decide) -> None:
        self._listener, self._decide = listener, decide

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the rules decide, and apply their decision."""
        outside = cast("asyncio.Transport", transport)  # uvloop's has another class
        ends = [transport.get_extra_info(name) for name in ("peername", "sockname")]
        bites: Sequence[Bite] = ()
        if None not in ends:
            bites = self._decide(self._listener.processor.server, *map(endpoint_of, ends))
        if any(each.rule.action.word == "refuse" for each in bites):
            send_reset(outside)
            return
        protocol = self._protocol(bites)
        outside.set_protocol(protocol)
        protocol.connection_made(outside)

    def _protocol(self, bites: Sequence[Bite]) -> asyncio.Protocol:
        listener = self._listener
        for bite in bites:
            if bite.rule.action.word == "hang":
                return HungConnection(listener, self._lifted(bite))
        connection = listener.make_connection()
        inside: asyncio.Protocol = connection
        for bite in reversed(bites):
            action = bite.rule.action
            assert isinstance(action, ConnectionAction), "about a connection"
            if action.word == "slow":
                assert action.octets is not None, "a rate"
                inside = SlowTransport(inside, action.octets, self._lifted(bite))
            else:
                inside = ResetTransport(inside, action.octets)
        return listener.wrap(connection, inside)

    def _lifted(self, bite: Bite) -> Lifted:
        return lambda: bite.rule.is_lifted(self._listener.clock())


class HungConnection(DnsConnection):
    """Reads from the client, and never replies."""

    def __init__(self, listener: TcpListener, lifted: Lifted) -> None:
        super().__init__(listener)
        self._lifted = lifted

    def expire(self, now: float) -> None:
        """Close when the rule has ended; until then the client may wait without limit."""
        if self._lifted():
            self.close()


class SlowTransport(Layer):
    """Sends at most this many octets a second, until `lifted`; then the rest at once."""

    def __init__(self, inside: asyncio.Protocol, rate: int, lifted: Lifted) -> None:
        super().__init__(inside)
        self._piece = max(1, round(rate * TICK))
        self._interval = self._piece / rate  # seconds
        self._lifted = lifted
        self._waiting = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = self._is_closing = False
        self._finish: Callable[[], None] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue octets to be sent in pieces; after the end nothing is sent."""
        if self._is_closing:
            return
        self._waiting += data
        if len(self._waiting) > HIGH and not self._is_paused:
            self._is_paused = True
            self._inside.pause_writing()
        if self._timer is None:
            self._send()

    def close(self) -> None:
        """Close after all octets have been sent."""
        self._is_closing = True
        self._end(self._outside.close)

    def write_eof(self) -> None:
        """Send EOF after all octets have been sent."""
        self._end(self._outside.write_eof)

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._is_closing or self._outside.is_closing()

    def abort(self) -> None:
        """Close at once."""
        self._waiting.clear()
        self._outside.abort()

    def eof_received(self) -> bool:
        """Half-closed by the client: what waits is still sent, and it closes by itself after that."""
        if super().eof_received():
            return True
        if self._waiting:
            self.close()
        return bool(self._waiting)

    def _end(self, finish: Callable[[], None]) -> None:
        if self._waiting:
            self._finish = finish
        else:
            finish()

    def _send(self) -> None:
        """Send the next piece; the timer continues after the last one, so that later octets are not sent early."""
        self._timer = None
        if not self._waiting or self._outside.is_closing():
            self._waiting.clear()
            return
        count = len(self._waiting) if self._lifted() else self._piece
        self._outside.write(bytes(self._waiting[:count]))
        del self._waiting[:count]
        if self._is_paused and len(self._waiting) <= HIGH // 2:
            self._is_paused = False
            self._inside.resume_writing()
        if not self._waiting and self._finish is not None:
            self._finish()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._send)


class ResetTransport(Layer):
    """Resets the connection after this many octets; None: after half of the first write."""

    def __init__(self, inside: asyncio.Protocol, octets: int | None) -> None:
        super().__init__(inside)
        self._left = octets
        self._is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the octets, as far as the limit allows."""
        if self._is_over or not data:
            return
        if self._left is None:
            self._left = len(data) // 2
        sent = data[: self._left]
        self._left -= len(sent)
        if sent:
            self._outside.write(sent)
        if not self._left:
            self._is_over = True
            self._reset_when_sent()

    def _reset_when_sent(self) -> None:
        if self._outside.is_closing():
            return
        if self._outside.get_write_buffer_size():  # a reset would discard these octets
            asyncio.get_running_loop().call_later(POLL, self._reset_when_sent)
        else:
            send_reset(self._outside)


def send_reset(transport: asyncio.Transport) -> None:
    """Close a connection with RST instead of FIN."""
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the client has closed it already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


log = logging.getLogger("hsdns.faults")

CallLater = Callable[[float, Callable[[], None]], Any]


class Restartable(Protocol):
    """The interface of the process to restarts."""

    @property
    def instance(self) -> Instance | None:
        """The serving configuration."""

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        """Kill the serving instance, and start it again when `dead` has returned.

        Return False, with nothing done, if the process ends, or if `wanted`, called right before, returns False.
        """

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> object:
        """Start a task."""


class Process(Restartable, Protocol):
    """The interface of the process to the rules; `clock` gives monotonic seconds."""

    metrics: Registry
    clock: Callable[[], float]

    def configurations(self) -> Iterable[Configuration]:
        """Those that run."""

    def place_faults(self) -> None:
        """Make the processors of the serving instance again."""


@dataclass(eq=False)
class Restarts:
    """The restarts of a process.

    `clock` gives monotonic seconds, `call_later` calls a function after some seconds; `ended` is called after each
    restart.
    """

    rules: Rules
    process: Restartable
    clock: Callable[[], float]
    call_later: CallLater
    ended: Callable[[], None]

    def __post_init__(self) -> None:
        self._timer: Any = None
        self._rule: Rule | None = None  # the rule that has killed the process
        self._back = asyncio.Event()  # set when the process is to start again
        self._is_closed = False

    @property
    def is_restarting(self) -> bool:
        """Whether a rule has killed the process, and it has not restarted yet."""
        return self._rule is not None

    def look(self) -> None:
        """Run the restart that is due, and set the timer for the next one."""
        self._forget_timer()
        now = self.clock()
        if self._rule is not None:
            if self._rule.is_lifted(now):
                self._back.set()
            return
        waits = []
        for rule in self.rules.about("process"):
            assert isinstance(rule.action, Restart), "about the process"
            if self._is_closed or rule.is_over(now):
                continue
            seconds = rule.begun + rule.selector.seconds - now
            if seconds <= 0 and self._is_needed(rule.action):
                self._begin(rule)
                return
            waits.append(max(seconds, POLL))
        if waits:
            self._timer = self.call_later(min(waits), self.look)

    def close(self) -> None:
        """Start the process again at once, and restart it no more."""
        self._is_closed = True
        self._back.set()
        self._forget_timer()

    def _is_needed(self, action: Restart) -> bool:
        instance = self.process.instance
        if action.pending is None or instance is None:
            return action.pending is None
        return sum(each.pending for each in instance.listeners) >= action.pending

    def _begin(self, rule: Rule) -> None:
        self._rule, self._back = rule, asyncio.Event()
        rule.is_at_work = True
        self.process.spawn(self._run(rule), "restart")

    async def _run(self, rule: Rule) -> None:
        assert isinstance(rule.action, Restart), "about the process"
        action, back, is_wanted = rule.action, self._back, True

        def wanted() -> bool:
            nonlocal is_wanted
            is_wanted = not rule.is_over(self.clock()) and self._is_needed(action)
            return is_wanted

        async def dead() -> None:
            self.rules.strike(rule)
            log.warning('plugin/fault: the process is killed by the rule "%s"', rule.name)
            timer = self.call_later(action.dead, back.set)
            await back.wait()
            timer.cancel()

        try:
            is_back = await self.process.restart(dead, wanted)
        finally:
            rule.is_at_work, self._rule = False, None
        if not is_back and is_wanted:
            self._is_closed = True  # the process ends
        if is_back and not self._is_closed:
            log.warning('plugin/fault: the process is back, after the rule "%s"', rule.name)
        self.ended()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# Where rules take effect outside of a chain, by their subject.
_BESIDE: Final = {
    "connection": "the connection of a query",
    "miss": "a query that the answer table has no reply to",
    "process": "the process",
    "watch": "requests to the API server",
}
LIFETIME: Final = 600.0  # seconds, for a rule without a lifetime of its own


class StandingFaults:
    """The rules of a process; `listeners` applies those about connections and misses."""

    def __init__(
        self,
        process: Process,
        listeners: ListenerFaults | None = None,
        random: Random | None = None,
    ) -> None:
        self.rules = Rules(Random() if random is None else random, hits_metric(process.metrics))
        self.rules.on_spent = self._spent
        # Finds the Pod of a client address, in place of the kubernetes blocks; these Pods may query other local
        # addresses.
        self.pod_of: PodOf | None = None
        self._process, self._clock = process, process.clock
        self._listeners = listeners or ListenerFaults()
        self._restarts = Restarts(self.rules, process, self._clock, self._after, self.look)
        self._timer: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_restarting(self) -> bool:
        """Whether a rule has killed the process, and it has not restarted yet."""
        return self._restarts.is_restarting

    def hold(self, configuration: Configuration) -> None:
        """Make the clusters of a starting configuration keep earlier states, and activate rules there.

        From then on `configurations` has it, so that each change of the rules applies to it.
        """
        hold(self, self.rules, configuration.plugins, self._clock)
        for plugin in configuration.plugins:
            if has(plugin, Forwards):
                plugin.leave_misses_to_chain(bool(self.rules.about("miss")))

    def place(self, runtime: ServerRuntime) -> None:
        """Add the rules to the blocks of a configuration that they may apply to, and only there."""
        configuration = runtime.configuration
        handler = FaultHandler(
            self.rules,
            asyncio.sleep,
            runtime.resolve,
            self._pod_finder(configuration) or NO_PODS,
        )
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

    def place_again(self, instances: Iterable[Instance]) -> None:
        """Make the processors again of the instances whose blocks do not have the rules that they should have."""
        for each in instances:
            # A start may be placing rules at this moment, in a thread.
            if each.state is not State.SERVING or not self.is_placed(each.configuration):
                each.names_answered_first_changed()

    def add(
        self,
        words: Sequence[str],
        configuration: Configuration,
        lifetime: float | None = LIFETIME,
    ) -> Rule:
        """Activate a rule, for `lifetime` seconds unless it says otherwise; raise RuleError."""
        rule = self.make(words, configuration, lifetime)
        self.rules.add(rule)
        self._change()
        return rule

    def make(
        self,
        words: Sequence[str],
        configuration: Configuration,
        lifetime: float | None = LIFETIME,
    ) -> Rule:
        """Make a rule that is not active yet; raise RuleError."""
        self.rules.expire(self._clock())
        servers = [served.listen.server for served in configuration.listeners]
        wanted = read_rule(words, servers)
        if self.pod_of is None and (lack := lacks_pods(wanted, configuration.plugins)):
            raise RuleError(lack)
        rule = self.rules.make(wanted, self._clock(), lifetime)
        zones = [zone for zone, _ in _zones_for(wanted, configuration)]
        why = why_never(wanted, configuration.plugins) or never_matches(
            wanted._replace(lifetime=rule.lifetime), zones, knows_addresses=self.pod_of is None
        )
        if why:
            raise RuleError(f"the rule can never match: {why}")
        return rule

    def remove(self, name: str, configuration: Configuration | None) -> Rule:
        """End a rule; raise RuleError.  There is no configuration while the process is killed."""
        for rules in corefile_rules(configuration):
            if name in rules.standing and name not in self.rules.standing:
                place = rules.standing[name].place
                raise RuleError(f'the rule "{name}" is written at {place}; remove it there')
        rule = self.rules.remove(name)
        self.rules.expire(self._clock())  # used-up rules too; _change() checks again later
        self._change()
        return rule

    def clear(self) -> list[Rule]:
        """End all rules."""
        found = self.rules.clear()
        self._change()
        return found

    def beside_the_chain(self) -> list[str]:
        """Descriptions of the rules that may take effect outside of a chain; handlers describe the others."""
        now = self._clock()
        return [
            f'rule "{rule.name}" may hit {where}: {rule.what}'
            for about, where in _BESIDE.items()
            for rule in self.rules.about(about)
            if not rule.is_over(now)
        ]

    def look(self) -> None:
        """End the expired rules."""
        self.rules.expire(self._clock())
        self._change()

    def end(self) -> None:
        """End all restarts; a killed process starts again at once, so that it can shut down."""
        self._restarts.close()

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _change(self) -> None:
        """Apply a change of the rules to clusters, processors and listeners, and set the timer."""
        for configuration in self._process.configurations():
            self.hold(configuration)
        self._process.place_faults()
        self._listeners.connect = self._connect if self.rules.about("connection") else None
        self._listeners.shed = self._shed if self.rules.about("miss") else None
        self._restarts.look()
        end = self.rules.next_end
        if end is None:
            self.close()
        else:
            self._look_in(max(end - self._clock(), 0.0))

    def _spent(self) -> None:
        """A rule has reached its number of hits; a rule about a watch reports it from another thread."""
        if self._loop is None:
            self._look_in(0.0)
        else:
            self._loop.call_soon_threadsafe(self._look_in, 0.0)

    def _look_in(self, seconds: float) -> None:
        self.close()
        self._timer = self._after(seconds, self.look)

    def _after(self, seconds: float, call: Callable[[], None]) -> Any:
        self._loop = asyncio.get_running_loop()
        return self._loop.call_later(seconds, call)

    def _connect(self, listener: TcpListener) -> FaultyConnection:
        return FaultyConnection(listener, partial(self._decide, "connection", "tcp"))

    def _shed(self, server: str, client: Endpoint, local: Endpoint) -> bool:
        return bool(self._decide("miss", "udp", server, client, local))

    def _decide(
        self, about: str, protocol: str, server: str, client: Endpoint, local: Endpoint
    ) -> list[Bite]:
        instance = self._process.instance
        pods = None if instance is None else self._pod_finder(instance.configuration)
        asked = Asked.unread(server, protocol, client, local, pods or NO_PODS)
        return self.rules.decide(asked, self._clock(), about)

    def _pod_finder(self, configuration: Configuration) -> PodOf | None:
        return self.pod_of or pod_finder(configuration.plugins)

    def _touched(self, configuration: Configuration) -> set[int]:
        return {
            id(block)
            for rule in self.rules.about("query")
            for zone, blocks in _zones_for(rule, configuration)
            if rule.selector.touches(zone)
            for block in blocks
        }


def corefile_rules(configuration: Configuration | None) -> list[Rules]:
    """The rules of the directives, in the order of the Corefile."""
    plugins = () if configuration is None else configuration.plugins
    return [each.rules for each in plugins if isinstance(each, Fault)]


def _zones_for(
    rule: Rule | Wanted, configuration: Configuration
) -> Iterator[tuple[Zone, Sequence[AssembledBlock]]]:
    """The blocks that a rule may apply to: for a rule about the state of the cluster, those with names of it.

    A rule that must see all five-tuples applies to all blocks.
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


def measure_behind(process: Process, standing: Rules | None) -> None:
    """Measure the rules of the configurations and of the control API before each scrape."""

    def measure() -> None:
        now, found = process.clock(), dict[tuple[str, ...], float]()
        for configuration in process.configurations():
            for rules in (*corefile_rules(configuration), *filter(None, [standing])):
                for rule in rules.about("query"):
                    seconds = behind(rule, configuration.plugins, now)
                    if seconds is not None:
                        found[rule.name,] = max(seconds, found.get((rule.name,), 0.0))
        process.metrics.gauge("hsdns_fault_behind_seconds", ("rule",)).values = found

    process.metrics.before_collect(measure)
