"""Queries for tests of rules, made from text, and the rows of rules.txt."""

from __future__ import annotations

from pathlib import Path

from _pytest.mark import ParameterSet

from hsdns.chain import Endpoint
from hsdns.faults.rules import Rule
from hsdns.faults.selector import TRANSPORTS, UNKNOWN, Asked, ClientPod
from hsdns.faults.words import read_rule
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name
from tests.support.tables import columns

SERVERS = ("dns://:53", "tls://:853", "https://:443")
PODS = {
    "10.0.0.1": ClientPod(b"shop", "web-0", {"app": "web"}),
    "10.0.0.2": ClientPod(b"shop", "web-1", {"app": "web", "tier": "test"}),
    "10.0.0.3": ClientPod(b"etc", "x"),
}


def asked(text: str) -> Asked:
    """`NAME [TYPE] [TRANSPORT] [CLIENT[#PORT]] [to=ADDRESS]`, in any order after the name."""
    name, *rest = text.split()
    qtype, transport, client, port, local = "A", "udp", "192.0.2.9", 1024, "127.0.0.1"
    for word in rest:
        if word.startswith("@"):
            continue
        if word.startswith("to="):
            local = word.removeprefix("to=")
        elif word in (*TRANSPORTS, UNKNOWN):
            transport = word
        elif "." in word or ":" in word:
            client, _, number = word.partition("#")
            port = int(number or port)
        else:
            qtype = word
    server = {"dot": SERVERS[1], "doh": SERVERS[2]}.get(transport, SERVERS[0])
    return Asked(
        Name.from_text(name), type_from_text(qtype), transport, Endpoint(client, port), local, server, PODS.get
    )  # fmt: skip


def time_of(text: str) -> float:
    """The time of a query, `@SECONDS` in its text; 0 without."""
    return next((float(word[1:]) for word in text.split() if word.startswith("@")), 0.0)


def make_rule(text: str, seed: int = 1, begun: float = 0.0) -> Rule:
    """A rule that stands; the seed in its text counts."""
    wanted = read_rule(text.split(), SERVERS)
    given = seed if wanted.seed is None else wanted.seed
    return Rule(wanted, wanted.name or "r", given, begun, wanted.lifetime, "")


def marks(rule: Rule, queries: list[Asked], times: list[float]) -> str:
    """1 for each query that a rule hits, 0 for each other."""
    found = [rule.decide(each, at) for each, at in zip(queries, times, strict=True)]
    return "".join("0" if each is None else "1" for each in found)


def table(name: str) -> list[ParameterSet]:
    """The rows of a section of rules.txt: GIVEN => EXPECTED."""
    return columns(Path(__file__).with_name("rules.txt"), name)
