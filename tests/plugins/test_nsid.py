from __future__ import annotations

import os

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.plugins.nsid import Nsid
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.setup import set_up

BELOW = reply(["x. 1 IN A 192.0.2.1"])
ASKED = Edns(1400, options=((10, b"12345678"), (3, b"")))


@pytest.mark.parametrize(
    ("edns", "below"),
    [
        pytest.param(None, BELOW, id="no-edns"),
        pytest.param(Edns(1232, options=((10, b"x"),)), BELOW, id="not-asked"),
        pytest.param(ASKED, unwritten(Rcode.SERVFAIL), id="unwritten"),
        pytest.param(ASKED, Reply(dropped=True), id="dropped"),
    ],
)
def test_adds_nothing_otherwise(edns: Edns | None, below: Reply) -> None:
    assert finish(Nsid(b"me").handle(make_request("x.", edns=edns), next_with(below))) is below


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("nsid", os.uname().nodename.encode()),
        ("nsid one", b"one"),
        ("nsid use the  force", b"use the force"),
        ('nsid "a  b" é', "a  b é".encode()),
        ('nsid ""', os.uname().nodename.encode()),
    ],
)
def test_data(text: str, data: bytes) -> None:
    assert set_up(Nsid, text).data == data


def test_on_the_wire() -> None:
    request = make_request("x.", edns=ASKED)
    found = finish(Nsid(b"me").handle(request, next_with(Reply())))
    assert encode(request.query, found, 512).endswith(
        bytes.fromhex("00 0029 0578 00008000 0006 0003 0002 6d65")
    )


def test_not_cacheable() -> None:
    assert not isinstance(set_up(Nsid, "nsid"), Cacheable)
