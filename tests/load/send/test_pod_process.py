"""The process that sends, with pods, against a server of one answer."""

import socket

import pytest

from hsdns.load.outcome import (
    END,
    ENDS,
    FOUND,
    LOOKUPS,
    OUTCOMES,
    QUESTION,
    Lookup,
    Outcome,
    unpack_lookups,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.plan import Plan
from hsdns.load.send.process import SenderProcess
from tests.load.pod_plans import plan
from tests.load.servers import server

SECONDS, RATE = 0.1, 200.0


@pytest.mark.sockets
@pytest.mark.slow
def test_lookups_are_carried_out() -> None:
    lookups: list[Lookup] = []
    outcomes: list[Outcome] = []
    questions: list[str] = []
    with server() as port:
        asked = Plan(
            socket.AF_INET, ("127.0.0.1", port), [], [], 1, [(SECONDS, RATE, RATE)], "even", 1, 5 * 10**9, 3, True,
            pods=plan(resolvers={"musl": 1}),
        )  # fmt: skip
        with SenderProcess(asked) as process:
            process.prepare()
            begin = process_begin(process)
            is_over = False
            while not is_over:
                for kind, content in process.messages(10.0):
                    is_over |= kind == END
                    if kind == LOOKUPS:
                        lookups += unpack_lookups(content)
                    elif kind == OUTCOMES:
                        outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
                    elif kind == QUESTION:
                        questions.append(unpack_question(content)[1].name.to_text())
    assert sorted(each.planned - begin for each in lookups) == [at * 5_000_000 for at in range(20)]
    assert {(ENDS[each.end], each.queries, each.wasted, each.again) for each in lookups} == {(FOUND, 2, 0, 0)}  # fmt: skip
    assert len(outcomes) == 40
    assert all(each.planned <= each.sent <= each.received for each in outcomes)
    assert set(questions) == {"web.shop.svc.cluster.local."}


def process_begin(process: SenderProcess) -> int:
    import time  # noqa: PLC0415

    begin = time.monotonic_ns() + 50_000_000
    process.start(begin)
    return begin
