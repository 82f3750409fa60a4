from __future__ import annotations

from collections.abc import Callable

import pytest

from hsdns.chain import Request
from hsdns.gotemplate.functions import Record
from hsdns.plugins.template import Hit, Miss, Rule, Template, read_rule
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up


def rule(text: str) -> Rule:
    return read_rule(directives(text)[0], make_block(["example.org.", "example.net."]))


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        pytest.param("template IN A", {"qname": "a.example.org."}, "hit", id="zone-of-the-block"),
        pytest.param("template IN A", {"qname": "a.example.com."}, "NEXT", id="outside"),
        pytest.param(
            "template IN A example.com", {"qname": "a.example.com."}, "hit", id="own-zone"
        ),
        pytest.param("template IN A", {"qname": "example.org.", "qtype": "MX"}, "NEXT", id="type"),
        pytest.param(
            "template IN ANY", {"qname": "example.org.", "qtype": "MX"}, "hit", id="any-type"
        ),
        pytest.param(
            "template IN A", {"qname": "example.org.", "qtype": "ANY"}, "hit", id="qtype-any"
        ),
        pytest.param("template CH A", {"qname": "example.org."}, "NEXT", id="class"),
        pytest.param(
            "template ANY A", {"qname": "example.org.", "qclass": "CH"}, "hit", id="any-class"
        ),
        pytest.param(
            "template IN A {\n match ^a ^b\n}",
            {"qname": "B.example.org."},
            "hit",
            id="second-pattern",
        ),
        pytest.param(
            "template IN A {\n match ^a\n match ^b\n}",
            {"qname": "c.example.org."},
            "SERVFAIL",
            id="no-pattern",
        ),
        pytest.param(
            "template IN A {\n match ^a\n fallthrough\n}",
            {"qname": "c.example.org."},
            "NEXT",
            id="fallthrough",
        ),
        pytest.param(
            "template IN A {\n match ^a\n fallthrough example.net\n}",
            {"qname": "c.example.org."},
            "SERVFAIL",
            id="fallthrough-in-another-zone",
        ),
        pytest.param(
            "template IN A {\n expr proto() == 'tcp'\n fallthrough\n}",
            {"qname": "c.example.org."},
            "NEXT",
            id="condition",
        ),
        pytest.param(
            "template IN A {\n expr 1\n}", {"qname": "c.example.org."}, "SERVFAIL", id="not-bool"
        ),
        pytest.param(
            "template IN A {\n expr incidr('x', '10.0.0.0/8')\n fallthrough\n}",
            {"qname": "c.example.org."},
            "SERVFAIL",
            id="condition-fails",
        ),
        pytest.param(
            "template IN A {\n var n int('x')\n fallthrough\n}",
            {"qname": "c.example.org."},
            "SERVFAIL",
            id="variable-fails",
        ),
        pytest.param(
            "template IN A {\n match ^a\n var n int('x')\n fallthrough\n}",
            {"qname": "c.example.org."},
            "NEXT",
            id="variables-need-a-match",
        ),
    ],
)
def test_match(text: str, question: dict[str, str], expected: str) -> None:
    found = rule(text).match(make_request(**question))  # type: ignore[arg-type]  # all values of these rows are str
    assert (found.name if isinstance(found, Miss) else "hit") == expected


def hit(text: str, **question: str) -> Hit:
    found = rule(text).match(make_request(**question))  # type: ignore[arg-type]  # all values are str
    assert isinstance(found, Hit)
    return found


def test_data() -> None:
    text = "template ANY ANY {\n match (?P<n>[0-9]+)(x)?[.](?P<zone>.*)\n var num int(group('n')) + 1\n var whole group(0)\n}"
    found = hit(text, qname="Web-7.Example.org.", qtype="AAAA", client="fe80::1%eth0")
    fields = dict(found.data.fields)
    meta = fields.pop("Meta")
    question, message = fields.pop("Question"), fields.pop("Message")
    assert fields == {
        "Zone": "example.org.",
        "Name": "web-7.example.org.",
        "Regex": "(?P<n>[0-9]+)(x)?[.](?P<zone>.*)",
        "Match": ["7.example.org.", "7", "", "example.org."],
        "Group": {
            "0": "7.example.org.",
            "1": "7",
            "2": "",
            "3": "example.org.",
            "n": "7",
            "zone": "example.org.",
        },
        "Class": "IN",
        "Type": "AAAA",
        "Remote": "fe80::1",
        "Var": {"num": 8, "whole": "7.example.org."},
    }
    assert question.fields == {"Name": "Web-7.Example.org.", "Qtype": 28, "Qclass": 1}
    assert isinstance(message, Record)
    assert (message.fields["Id"], message.fields["RecursionDesired"]) == (4711, True)
    assert message.fields["Question"] == [question]
    assert meta.call("a/b") == ""
    assert (found.zone, found.rrclass, found.rrtype) == ("example.org.", "IN", "AAAA")


@pytest.mark.parametrize(
    ("text", "qtype", "shown"),
    [
        ("template IN MX", "ANY", "MX"),
        ("template IN ANY", "ANY", "ANY"),
        ("template IN ANY", "TYPE65280", ""),
    ],
)
def test_type_label_for_any(text: str, qtype: str, shown: str) -> None:
    assert hit(text, qname="example.org.", qtype=qtype).rrtype == shown


PASSED = Reply(rcode=Rcode.REFUSED)


class Started:
    """The started plugin, the queries that it resolved through the server, and its counters."""

    def __init__(self, text: str, resolver: Callable[[Request], Reply] | None = None) -> None:
        self.runtime = FakeRuntime()
        self.lookups: list[Request] = []
        self._resolver = resolver
        self.runtime.resolver = self._resolve
        self.plugin = set_up(Template, text)
        finish(self.plugin.start(self.runtime))

    def _resolve(self, request: Request) -> Reply:
        self.lookups.append(request)
        assert self._resolver is not None
        return self._resolver(request)

    def ask(self, qname: str, qtype: str = "A", **fields: object) -> Reply:
        request = make_request(qname, qtype, **fields)  # type: ignore[arg-type]  # fields by their names
        return finish(self.plugin.handle(request, next_with(PASSED)))

    @property
    def counted(self) -> list[dict[tuple[str, ...], float]]:
        words = ("matches", "template_failures", "rr_failures")
        names = [f"coredns_template_{word}_total" for word in words]
        return [self.runtime.metrics.counter(name, "", ()).values for name in names]


def test_metadata_and_view() -> None:
    template = Started(
        'template IN TXT {\n answer "{{ .Name }} TXT \\"{{ .Meta \\"a/b\\" }}\\""\n}'
    )
    request = make_request("a.", "TXT").replace(metadata={"a/b": lambda: "x"}, view="inside")
    found = finish(template.plugin.handle(request, next_with(PASSED)))
    assert section(found.answer) == ['a. 3600 IN TXT "x"']
    assert template.counted[0] == {("dns://:53", ".", "inside", "IN", "TXT"): 1}
