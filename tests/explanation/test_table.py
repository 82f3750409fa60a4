"""Whether the answer table stores a reply."""

from __future__ import annotations

import pytest

from hsdns.explanation.asked import read_question
from hsdns.explanation.explain import Edges, Explainer
from hsdns.explanation.live import KnownObjects
from hsdns.fastpath import _python
from tests.support.cluster.objects import namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

OBJECTS = (namespace("shop"), service("shop/web", "10.96.0.1"))
WEB = "web.shop.svc.cluster.local"
STORED = "stored once it was asked for, until an object that it depends on changes"


@pytest.mark.parametrize(
    ("front", "pods", "question", "told"),
    [
        ("", "insecure", WEB, STORED),
        ("", "insecure", f"x{WEB}", STORED),
        ("cache\n", "insecure", WEB, STORED),
        ("", "insecure", f"{WEB} TYPE99", "not stored: replies for SPF are not"),
        ("", "verified", "10-0-0-1.shop.pod.cluster.local", "not stored: it also depends on what tells no changes"),
        ("erratic\n", "insecure", "x.example", ""),
        ("whoami\n", "insecure", "example.test", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_a_reply(front: str, pods: str, question: str, told: str) -> None:
    text = f"cluster.local {{\n{front}kubernetes {{\npods {pods}\n}}\n}}\n"
    server = MemoryServer(text, _python, OBJECTS)
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    edges = Edges(server.runtime.queries.spawn, counters=server.runtime.counters)
    name, _, rrtype = question.partition(" ")
    coro = Explainer(server.configuration, seeing, edges).explain(*read_question(name, rrtype), 0.0)
    assert turns(coro)[0].table == told


def test_a_plugin_that_must_see_every_query() -> None:
    text = ". {\nwhoami\n}\n"
    server = MemoryServer(text, _python)
    edges = Edges(server.runtime.queries.spawn, counters=server.runtime.counters)
    coro = Explainer(server.configuration, {}, edges).explain(*read_question("a.test"), 0.0)
    assert turns(coro)[0].table == "not stored: it has no kubernetes plugin"
