"""Shares of kinds, as flags give them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.pods import Target
from hsdns.load.questions import ABSENT, Question, Questions, order, read_queries, zipf
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import CD, RD, Query
from hsdns.wire.name import Name
from tests.load.pod_plans import VAULT, plan

WWW = Question(Name.from_text("www.a.test."), RRType.SRV, "file")


@pytest.mark.parametrize("edns", [0, 1232])
def test_query(edns: int) -> None:
    wire = b"\x12\x34" + WWW.octets(edns)
    query = decode(wire)
    assert isinstance(query, Query)
    assert (query.id, query.qname, query.qtype, query.flags) == (0x1234, WWW.name, WWW.qtype, 0x100)
    assert (query.edns.payload_size if query.edns else 0) == edns


@pytest.mark.parametrize(
    ("question", "flags", "edns"),
    [
        (WWW._replace(flags=CD), CD, Edns(4096)),
        (WWW._replace(own_edns=0), RD, None),
        (WWW._replace(own_edns=1232, do=True, flags=RD | CD), RD | CD, Edns(1232, do=True)),
    ],
)
def test_a_query_as_it_was_recorded(question: Question, flags: int, edns: Edns | None) -> None:
    query = decode(b"\0\0" + question.octets(4096))
    assert (query.flags, query.edns) == (flags, edns)


def test_without_weights_one_after_the_other() -> None:
    assert list(islice(Questions([WWW] * 3).order(), 7)) == [0, 1, 2, 0, 1, 2, 0]


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), seed=st.integers())
def test_drawn_by_weight(weights: list[int], seed: int) -> None:
    drawn = list(islice(order(len(weights), weights, seed), 1000))
    assert drawn == list(islice(order(len(weights), weights, seed), 1000))
    for number, count in Counter(drawn).items():
        share = weights[number] / sum(weights)
        assert share > 0
        assert abs(count - 1000 * share) <= 6 * (1000 * share * (1 - share)) ** 0.5 + 6


def test_zipf() -> None:
    assert list(zipf(4, 1.0)) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert list(zipf(3, 0.0)) == [1, 1, 1]


def test_the_first_one_exists() -> None:
    absent = WWW._replace(group=ABSENT)
    assert Questions([absent, WWW]).first == WWW
    assert Questions([absent]).first == absent
    pods = plan(targets=[Target("x", "bank", ABSENT), VAULT])
    first = Questions([], pods=pods).first
    assert (first.name.to_text(), first.qtype, first.group) == (
        "v-0.vault.bank.svc.cluster.local.",
        RRType.A,
        "endpoint",
    )


def test_lines() -> None:
    text = (
        "; a comment\n\n# another\nwww.example.com A\nexample.com.\tmx\n1.0.0.10.in-addr.arpa PTR\n"
    )
    assert read_queries(text.splitlines(keepends=True), "q") == [
        Question(Name.from_text("www.example.com."), RRType.A, "file"),
        Question(Name.from_text("example.com."), RRType.MX, "file"),
        Question(Name.from_text("1.0.0.10.in-addr.arpa."), RRType.PTR, "file"),
    ]


@pytest.mark.parametrize(
    ("line", "name", "qtype"),
    [
        ("www.example.com\t \ta", "www.example.com.", RRType.A),
        ("www.example.com A IN", "www.example.com.", RRType.A),
        ("www.example.com A\r\n", "www.example.com.", RRType.A),
        (". NS", ".", RRType.NS),
        ("a\\.b.test TYPE65", "a\\.b.test.", RRType.HTTPS),
        ("a.test type65535", "a.test.", 65535),
        ("a.test NSAP-PTR", "a.test.", 23),
        ("a.test amtrelay", "a.test.", 260),
        ("a.test NULL", "a.test.", 10),
        ("add A", "add.", RRType.A),
    ],
)
def test_a_line(line: str, name: str, qtype: int) -> None:
    assert read_queries([line], "q") == [Question(Name.from_text(name), qtype, "file")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("; none", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("a.test A\na.test", 'q.txt:2: "a.test" is not a name and a type; write a line such as www.example.com A'),
        ("a.test A CH", 'q.txt:1: "a.test A CH" is not a name and a type; write a line such as www.example.com A'),
        ("a.test AAAAA", 'q.txt:1: "AAAAA" is not a record type; did you mean "AAAA"?'),
        ("a.test IN A", 'q.txt:1: "a.test IN A" is not a name and a type; write a line such as www.example.com A'),
        ("a.test TYPE65536", 'q.txt:1: "TYPE65536" is not a record type'),
        ("a.test C", 'q.txt:1: "C" is not a record type'),
        ("a.test A\nadd x 3600 A 10.1.2.3",
         'q.txt:2: "add x 3600 A 10.1.2.3" is of a dynamic update (dnsperf -u), and only queries are sent'),
        ("a.test A\nsend", 'q.txt:2: "send" is of a dynamic update (dnsperf -u), and only queries are sent'),
        ("\0\x1d\0\0", "q.txt:1: this is no text; a file for dnsperf -B is not read"),
        ("a..test A", 'q.txt:1: "a..test" is no name: label b\'\' has 0 octets, allowed are 1 to 63'),
    ],
)  # fmt: skip
def test_bad_files(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_queries(text.splitlines(), "q.txt")
    assert str(error.value) == sentence
