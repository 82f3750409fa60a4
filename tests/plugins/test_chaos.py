from __future__ import annotations

import os

import pytest

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.plugins.chaos import Chaos
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])


def ask(text: str, qname: str, qtype: str = "TXT", qclass: str = "CH", seed: int = 1) -> Reply:
    plugin = set_up(Chaos, text)
    finish(plugin.start(FakeRuntime(seed)))
    return finish(plugin.handle(make_request(qname, qtype, qclass=qclass), next_with(BELOW)))


@pytest.mark.parametrize(
    ("text", "qname", "answer"),
    [
        ("chaos", "version.bind.", [f'version.bind. 0 CH TXT "hsdns-{__version__}"']),
        ("chaos v1", "version.bind.", ['version.bind. 0 CH TXT "v1"']),
        ('chaos "v 1" me', "VERSION.Server.", ['VERSION.Server. 0 CH TXT "v 1"']),
        (f"chaos {'v' * 300}", "version.bind.", [f'version.bind. 0 CH TXT "{"v" * 255}"']),
        ("chaos", "authors.bind.", ['authors.bind. 0 CH TXT "hsdns"']),
        ("chaos v1", "authors.bind.", ['authors.bind. 0 CH TXT "hsdns"']),
        ("chaos v1 me me", "authors.bind.", ['authors.bind. 0 CH TXT "me"']),
        ("chaos", "hostname.bind.", [f'hostname.bind. 0 CH TXT "{os.uname().nodename}"']),
        ("chaos", "id.server.", [f'id.server. 0 CH TXT "{os.uname().nodename}"']),
    ],
)
def test_answers(text: str, qname: str, answer: list[str]) -> None:
    found = ask(text, qname)
    assert found == Reply(rcode=Rcode.NOERROR, answer=found.answer)
    assert section(found.answer) == answer


@pytest.mark.parametrize(
    ("qname", "qtype", "qclass"),
    [
        ("version.bind.", "TXT", "IN"),
        ("version.bind.", "A", "CH"),
        ("version.bind.", "ANY", "CH"),
        ("x.version.bind.", "TXT", "CH"),
        ("bind.", "TXT", "CH"),
        ("version.bind.", "TXT", "ANY"),
    ],
)
def test_others_go_on(qname: str, qtype: str, qclass: str) -> None:
    assert ask("chaos", qname, qtype, qclass) is BELOW


def test_authors_come_in_any_order() -> None:
    orders = set()
    for seed in range(20):
        found = section(ask("chaos v1 a b", "authors.bind.", seed=seed).answer)
        assert sorted(found) == ['authors.bind. 0 CH TXT "a"', 'authors.bind. 0 CH TXT "b"']
        orders.add(tuple(found))
    assert len(orders) == 2


def test_listener_lets_other_classes_through() -> None:
    for directive, expected in (("chaos", True), ("whoami", False)):
        tree = parse(
            "Corefile",
            text=f"a.test {{\n{directive}\n}}\nb.test {{\nwhoami\n}}\n",
            environ={},
            known_directives=frozenset(ORDER),
        )
        (listener,) = assemble(tree, warn=lambda sentence: None).listeners
        assert listener.any_class is expected
