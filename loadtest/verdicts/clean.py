"""Right answers in this process, on a clock of its own: a cluster that changes, replies with harmless differences.

Path: __main__.py -> here -> hsdns' own code that answers, and the judge.
Rule 1: a reply has the state of a moment between its query and its arrival; the clock goes on by STEP with each.
Rule 2: of the differences (harmless.txt), each reply has none, or one of those that it can have.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Final, NamedTuple

from hsdns.cli.offline import configure, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.cluster.lookup import NoSuchName
from hsdns.corefile.tree import Position, Token
from hsdns.load.cluster.changes import DEFAULT
from hsdns.load.cluster.churn import Churn
from hsdns.load.cluster.names import cluster_questions
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.truth import Truth
from hsdns.load.verify.verifier import Verifier
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape
from hsdns.wire.encode import encode
from hsdns.wire.message import Query, Reply, nxdomain
from loadtest.verdicts.corruption import alter, fits, read_kinds

STEP: Final = 0.0002  # seconds between two answers
EACH: Final = 50  # answers after which there is a change
AROUND: Final = 0.001  # seconds at most from the query to the state, and from there to the arrival
SHAPE: Final = Shape(100, 5, seed=1)
_VARIANTS: Final = 2  # of each reply
_SEED: Final = 7


class Cleaned(NamedTuple):
    """The number of answers by verdict, of changes, and the CPU time of the judge in seconds."""

    verdicts: Counter[str]
    changes: int
    cpu: float


class Replies:
    """The current replies to questions, with numbers that the judge knows."""

    def __init__(
        self, block: Kubernetes, truth: Truth, questions: list[Question], verifier: Verifier
    ) -> None:
        self._block, self._truth = block, truth
        self._questions, self._verifier = questions, verifier
        self._random = random.Random(_SEED)
        self._kinds = read_kinds("harmless.txt")
        self._made: dict[int, tuple[int, list[tuple[int, int]]]] = {}
        self._count = 0
        self.cpu = 0.0

    def of(self, question: int) -> tuple[int, int]:
        """Flags and number of a reply."""
        states = self._truth.states(question)
        assert states is not None, "they are of the cluster"
        state = states[1] + len(states[0])
        known, variants = self._made.get(question, (0, []))
        if known != state:
            self._verifier.forget(number for _, number in variants)
            wire = self._wire(self._questions[question].query())
            variants = [self._variant(question, wire) for _ in range(_VARIANTS)]
            self._made[question] = state, variants
        return self._random.choice(variants)

    def _wire(self, query: Query) -> bytes:
        zone, answers = query.qname.longest_of(self._block.zones), self._block.answers
        assert zone is not None, "they are of the cluster"
        try:
            reply = answers.answer_at_once(query.qname, query.qtype, zone)
        except NoSuchName:
            reply = nxdomain(answers.soa(zone))
        assert isinstance(reply, Reply), "no name is outside"
        return encode(query, reply, 65_535)

    def _variant(self, question: int, wire: bytes) -> tuple[int, int]:
        query = self._questions[question].query()
        kind = self._random.choice(
            [None, *(each for each in self._kinds if fits(each, wire, query))]
        )
        octets = wire if kind is None else alter(kind, wire, query)
        self._count += 1
        begin = time.process_time()
        self._verifier.remember(self._count, question, octets[2:])
        self.cpu += time.process_time() - begin
        return int.from_bytes(octets[2:4], "big"), self._count


async def judge_clean(answers: int) -> Cleaned:
    """Judge so many answers."""
    tokens = ("synthetic", f"services={SHAPE.services}", f"endpoints={SHAPE.endpoints}", "seed=1")
    position = Position("-source", 0, 0)
    configuration, _ = configure(None, tuple(Token(word, position) for word in tokens))
    (block,) = kubernetes_blocks(configuration)
    runtime = make_runtime(configuration)
    await block.start(runtime)
    try:
        await wait_for_clusters(runtime, [block])
        return _judge(block, answers)
    finally:
        await block.stop()
        await runtime.tasks.cancel()


def _judge(block: Kubernetes, answers: int) -> Cleaned:
    now = 0.0
    asked = cluster_questions([block.answer_set()], None, 0.0, _SEED)
    questions, drawn = list(asked.all), random.Random(_SEED)
    truth = Truth(block, questions, lambda: now)
    verifier = Verifier(truth, questions)
    replies = Replies(block, truth, questions, verifier)
    churn = Churn(SHAPE, DEFAULT, _SEED, block.watch.deliver, lambda: now)
    changes, found, cpu, rest = churn.changes, Counter[str](), 0.0, answers
    while rest:
        churn.apply(changes.next())
        outcomes = []
        for question in drawn.choices(range(len(questions)), asked.weights, k=min(EACH, rest)):
            now += STEP
            at, flags_and_number = round(now * SECOND), replies.of(question)
            sent, received = (round(drawn.uniform(0, AROUND) * SECOND) for _ in range(2))
            outcomes.append((question, *flags_and_number, at - sent, at - sent, at + received))
        rest -= len(outcomes)
        begin = time.process_time()
        right, others = verifier.judge_all(outcomes)
        others += verifier.settled(now if rest else float("inf"))
        cpu += time.process_time() - begin
        found["right"] += len(right)
        found.update(each.verdict.word for each in others)
    return Cleaned(found, len(truth.changes), cpu + replies.cpu)


def run(answers: int) -> Cleaned:
    """Judge so many answers, in a loop of its own."""
    return asyncio.run(judge_clean(answers))
