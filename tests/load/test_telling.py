from __future__ import annotations

import pytest

from hsdns.load import telling as module
from hsdns.load.asked import Asked
from hsdns.load.connection_facts import LATE, Fact
from hsdns.load.outcome import CONNECTIONS, FORGET, LOST, OUTCOMES, REPLY, Frames, unpack_outcomes
from hsdns.load.telling import REPORT_EVERY, Telling

MESSAGE = b"\xff\xff\x84\3\0\1\0\0\0\0\0\0"


def told(telling: Telling, emitted: list[bytes]) -> list[tuple[bytes, object]]:
    telling.tell()
    found: list[tuple[bytes, object]] = []
    for kind, content in Frames().feed(b"".join(emitted)):
        found.append((kind, list(unpack_outcomes(content)) if kind == OUTCOMES else content))
    emitted.clear()
    return found


def test_a_reply_is_told_once_and_its_id_never() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=True)
    telling.reply(Asked(b"", 7, 10, 20), MESSAGE, 30)
    telling.reply(Asked(b"", 7, 11, 21), b"\0\1" + MESSAGE[2:], 31)
    telling.without_reply(Asked(b"", 8, 12, 22), LOST)
    assert told(telling, emitted) == [
        (REPLY, b"\0\0\0\1" + b"\0\0\0\7" + MESSAGE[2:]),
        (OUTCOMES, [(7, 0x8403, 1, 10, 20, 30), (7, 0x8403, 1, 11, 21, 31), (8, 0, 0, 12, 22, LOST)]),
    ]  # fmt: skip
    assert told(telling, emitted) == []


def test_replies_that_nobody_wants() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=False)
    telling.reply(Asked(b"", 7, 10, 20), MESSAGE, 30)
    telling.fact(Fact(LATE))
    assert [kind for kind, _ in told(telling, emitted)] == [OUTCOMES, CONNECTIONS]


def test_many_different_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REPLIES", 2)
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=True)
    for at in range(3):
        telling.reply(Asked(b"", 0, 0, 0), MESSAGE + bytes((at,)), 1)
    kinds = [kind for kind, _ in told(telling, emitted)]
    assert kinds == [REPLY, OUTCOMES, REPLY, OUTCOMES, FORGET, REPLY, OUTCOMES]


def test_told_in_time() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=False)
    telling.fact(Fact(LATE))
    telling.tell_at(REPORT_EVERY - 1)
    assert not emitted
    telling.tell_at(REPORT_EVERY)
    assert emitted
