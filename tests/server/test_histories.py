"""Any history of a server: starts, reloads, signals and clients, in any order, and what fails, fails.

A state machine over a server whose edges are in memory (stand_ins.py): no socket, no thread, a scripted clock.  In each
turn of the loop stand_ins.World.observe() looks whether the server is whole; at the end nothing is left of it.
tests/support/effort.py says how many histories are tried.
"""

import asyncio
import contextlib
import signal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hsdns.server.lifecycle import Phase
from tests.server.stand_ins import MODES, Connection, Question, Script, ScriptedError, World
from tests.support.effort import tries

HISTORIES = tries(60)
FAULTS = ("parse", "build", "bind", "http", "processors", "udp", "tcp", "end")

mostly_now = st.one_of(st.just("now"), st.sampled_from(MODES))
stops = st.one_of(mostly_now, st.just("ends as cancelled"))
scripts = st.builds(
    Script,
    ports=st.sampled_from([(53,), (54,), (53, 54), (53, 54, 55)]),
    workers=st.sampled_from([1, 2]),
    lameduck=st.sampled_from([0.0, 5.0]),
    starts=st.tuples(mostly_now, mostly_now, mostly_now),
    stops=st.tuples(stops, stops, stops),
    fault=st.one_of(st.just(""), st.sampled_from(FAULTS)),
    at=st.integers(0, 2),
    opens=mostly_now,
)
healthy = st.builds(
    Script, ports=st.sampled_from([(53,), (53, 54)]), lameduck=st.sampled_from([0.0, 5.0])
)
numbers = st.integers(0, 11)


class Histories(RuleBasedStateMachine):
    """One process."""

    world: World

    @initialize(script=st.one_of(healthy, scripts))
    def begin(self, script: Script) -> None:
        self.world = World(script)
        self.statuses: list[int] = []

    @property
    def is_over(self) -> bool:
        return self.world.main.done()

    def questions(self) -> list[Question]:
        return [
            each for each in self.world.questions if not each.outcome and not each.answer.is_set()
        ]

    # --- time ---

    @rule(count=st.integers(1, 4))
    def turn(self, count: int) -> None:
        self.world.loop.turn(count)

    @rule(seconds=st.sampled_from([0.005, 0.03, 1.1, 2.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.world.loop.wait(seconds)

    @precondition(lambda self: self.world.gates)
    @rule(number=numbers)
    def let_on(self, number: int) -> None:
        """What a script waits in goes on."""
        _, gate = self.world.gates.pop(number % len(self.world.gates))
        if not gate.done():
            gate.set_result(None)
        self.world.loop.turn()

    # --- what operators and plugins do ---

    @rule(script=st.one_of(healthy, scripts), is_signal=st.booleans())
    def reload(self, script: Script, is_signal: bool) -> None:
        self.world.write(script)
        serving = self.world.server.instance
        if is_signal:
            self._send(signal.SIGUSR1)
        elif serving is not None:
            runtime = serving
            self._within(lambda: runtime.spawn(runtime.reload_if_changed(), "reload"))

    @rule(number=st.sampled_from([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2]))
    @precondition(lambda self: self.world.server.phase is not Phase.NEW)
    def stop(self, number: signal.Signals) -> None:
        self._send(number)

    @precondition(lambda self: self.world.server.stopping)
    @rule()
    def quit(self) -> None:
        self._send(signal.SIGQUIT)

    @precondition(lambda self: self.world.server.instance is not None)
    @rule()
    def fail(self) -> None:
        assert self.world.server.instance is not None
        fail = self.world.server.instance.fail
        self.statuses.append(1)
        self._within(lambda: fail("scripted"))

    @precondition(lambda self: self.world.server.instance is not None)
    @rule(seconds=st.sampled_from([0.0, 1.1, 5.0]))
    def kill(self, seconds: float) -> None:
        server, killed = self.world.server, self.world.killed

        def wanted() -> bool:
            killed.extend(server.instances)
            return True

        async def dead() -> None:
            await asyncio.sleep(seconds)

        self._within(lambda: server.spawn(server.restart(dead, wanted), "restart"))

    @precondition(lambda self: self.world.server.instances)
    @rule(number=numbers)
    def change_names(self, number: int) -> None:
        instances = self.world.server.instances
        runtime = instances[number % len(instances)]

        def change() -> None:
            self.world.names[id(runtime)] = self.world.names.get(id(runtime), 0) + 1
            with contextlib.suppress(ScriptedError):
                runtime.names_answered_first_changed()

        self._within(change)

    @rule()
    def scrape(self) -> None:
        self.world.server.metrics.fold()

    # --- what clients do ---

    @precondition(lambda self: self.world.listening)
    @rule(number=numbers, is_known=st.booleans())
    def ask(self, number: int, is_known: bool) -> None:
        listening = self.world.listening
        self._within(lambda: listening[number % len(listening)].send(is_known))

    @precondition(lambda self: any(each.is_accepting for each in self.world.tcp))
    @rule(number=numbers)
    def connect(self, number: int) -> None:
        accepting = [each for each in self.world.tcp if each.is_accepting]
        Connection(accepting[number % len(accepting)])

    @precondition(lambda self: self.world.connections)
    @rule(number=numbers, is_known=st.booleans())
    def ask_over_tcp(self, number: int, is_known: bool) -> None:
        connection = self.world.connections[number % len(self.world.connections)]
        self._within(lambda: connection.ask(is_known))

    @precondition(lambda self: self.world.connections)
    @rule(number=numbers)
    def leave(self, number: int) -> None:
        self.world.connections[number % len(self.world.connections)].leave()

    @precondition(lambda self: self.questions())
    @rule(number=numbers)
    def answer(self, number: int) -> None:
        questions = self.questions()
        questions[number % len(questions)].answer.set()
        self.world.loop.turn()

    # --- what threads do ---

    @precondition(
        lambda self: any(each.may_count for each in self.world.tables) and not self.is_over
    )
    @rule(number=numbers)
    def finish_batch(self, number: int) -> None:
        """A worker counts what it answered from a table that has been exchanged meanwhile."""
        tables = [each for each in self.world.tables if each.may_count]
        tables[number % len(tables)].hit()

    @precondition(lambda self: self.world.listening)
    @rule(number=numbers)
    def drop(self, number: int) -> None:
        listening = self.world.listening
        listening[number % len(listening)].dropped += 1
        self.world.dropped += 1

    # --- what holds ---

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "world"):
            self.world.observe()
            for fault in self.world.faults:
                raise fault

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        try:
            self._end()
            self.is_whole()
            self._check_that_nothing_is_left()
        finally:
            world.close()

    def _end(self) -> None:
        """End the process, patiently where it can be; it has to end, whatever is in its way."""
        world = self.world
        world.loop.turn(2)
        self._send(signal.SIGTERM)
        for _ in range(200):
            if world.main.done():
                return
            while world.gates:
                self.let_on(0)
            for question in self.questions():
                question.answer.set()
            world.loop.wait(0.5)
        raise AssertionError(f"it does not end: {world.server.phase}")

    def _check_that_nothing_is_left(self) -> None:
        world = self.world
        world.loop.turn(2)  # a signal may just have come
        assert [each for each in world.sockets if each.is_open] == []
        assert [each.started for each in world.plugins] == [each.stopped for each in world.plugins]
        assert all(each.started <= 1 for each in world.plugins)
        assert world.server.instances == []
        assert world.server.http.shown == {}  # type: ignore[attr-defined]  # a stand-in
        assert [each.get_name() for each in asyncio.all_tasks(world.loop)] == []
        hits = sum(each.answered for each in world.tables)
        assert world.folded == hits, "counts are lost, or folded twice"
        lookups = world.server.metrics.counter("hsdns_table_lookups_total", ("server", "result"))
        assert sum(lookups.values.values()) == hits
        lost = world.server.metrics.counter("hsdns_log_drops_total").values.get((), 0)
        assert world.written + lost == hits, "lines of the log are not counted, or written twice"
        drops = world.server.metrics.counter("hsdns_udp_queue_drops_total")
        assert sum(drops.values.values()) == world.dropped, (drops.values, world.dropped)
        status = world.main.result()
        if world.has_served and self.statuses:
            assert status in self.statuses, (status, self.statuses)

    def _send(self, number: signal.Signals) -> None:
        world = self.world
        handler = world.loop.handlers.get(number)
        if handler is None or self.is_over:
            return

        def come() -> None:
            if world.server.phase is Phase.CLOSED:
                return
            if number == signal.SIGQUIT or (number == signal.SIGINT and world.server.stopping):
                world.is_forced = True
                self.statuses = [2 if number == signal.SIGINT else 0]
            elif number in (signal.SIGTERM, signal.SIGINT):
                self.statuses.append(0)
            handler()

        self._within(come)

    def _within(self, callback: object) -> None:
        """Call something in the loop, as what happens outside comes."""
        self.world.loop.call_soon(callback)  # type: ignore[arg-type]  # any callable
        self.world.loop.turn()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
