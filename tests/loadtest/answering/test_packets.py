from random import Random

import dns.flags
import dns.message
import dns.rcode
import pytest

from loadtest.answering.cluster import Cluster, Question
from loadtest.answering.mixes import BY_KEY
from loadtest.answering.packets import ReplySummary, queries, query_of, randomize, summarize

QUESTION = Question("svc-1.ns-0.svc.cluster.local", "SRV")


@pytest.mark.parametrize("edns", [False, True], ids=["plain", "edns"])
def test_query(edns: bool) -> None:
    message = dns.message.from_wire(query_of(QUESTION, edns=edns))
    assert message.question[0].to_text() == "svc-1.ns-0.svc.cluster.local. IN SRV"
    assert message.flags == dns.flags.RD
    assert (message.edns, message.payload) == ((0, 4096) if edns else (-1, 0))


def test_a_spoilt_query_asks_the_same_in_other_octets() -> None:
    query = query_of(QUESTION, edns=True)
    first, second = (randomize(query, Random(seed)) for seed in (1, 2))
    assert first != second
    for randomized in (first, second):
        message = dns.message.from_wire(randomized)
        assert message.question == dns.message.from_wire(query).question
        assert message.question[0].name.to_text() != QUESTION.name + "."
        assert [
            (int(option.otype), len(option.to_wire() or b"")) for option in message.options
        ] == [(10, 8)]


def test_a_mix_is_spoilt_or_not() -> None:
    cluster, random = Cluster(3, 2), Random(1)
    for key, repeats in (("hot", True), ("cookies", False)):
        mix = BY_KEY[key]
        twice = mix.questions(cluster, random)[:1] * 2
        assert (len(set(queries(mix, twice, random))) == 1) is repeats


def test_gist() -> None:
    message = dns.message.make_response(dns.message.from_wire(query_of(QUESTION, edns=False)))
    message.set_rcode(dns.rcode.NXDOMAIN)
    assert summarize(message.to_wire()) == ReplySummary(3, 0)
