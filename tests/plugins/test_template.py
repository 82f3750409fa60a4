from __future__ import annotations

from collections.abc import Callable

import pytest

from hsdns.chain import Request
from hsdns.gotemplate.functions import Record
from hsdns.plugins.template import Hit, Miss, Rule, Template, counters, read_rule
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
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


def test_without_a_pattern_the_whole_name_is_the_match() -> None:
    fields = hit("template IN A", qname="A.example.org.").data.fields
    assert (fields["Match"], fields["Regex"]) == (["a.example.org."], ".*")


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
        return [counter.values for counter in counters(self.runtime.metrics)]


def answer(text: str, qname: str, qtype: str = "A") -> Reply:
    return Started(text).ask(qname, qtype)


@pytest.mark.parametrize(
    ("lines", "qname", "answers"),
    [
        pytest.param(
            'answer "{{ .Name }} 60 IN A 192.0.2.1"',
            "A.example.",
            ["a.example. 60 IN A 192.0.2.1"],
            id="plain",
        ),
        pytest.param(
            'answer "{{ .Name }} 60 IN A 192.0.2.1" "{{ .Name }} 60 IN A 192.0.2.2"\n'
            ' answer "b. A 192.0.2.3"',
            "a.example.",
            [
                "a.example. 60 IN A 192.0.2.1",
                "a.example. 60 IN A 192.0.2.2",
                "b. 3600 IN A 192.0.2.3",
            ],
            id="several",
        ),
        pytest.param(
            "match ^ip-10-(?P<b>[0-9]*)-(?P<c>[0-9]*)[.]example[.]$\n"
            ' answer "{{ .Name }} 60 IN A 10.{{ .Group.b }}.{{ .Group.c }}.{{ index .Match 1 }}"',
            "ip-10-1-2.example.",
            ["ip-10-1-2.example. 60 IN A 10.1.2.1"],
            id="groups",
        ),
        pytest.param(
            "match ^ip0a(?P<b>[a-f0-9]{2})[.]example[.]$\n"
            ' answer "{{ .Name }} 60 IN A 10.{{ parseInt .Group.b 16 8 }}.0.1"',
            "ip0aFF.example.",
            ["ip0aff.example. 60 IN A 10.255.0.1"],
            id="hexadecimal",
        ),
        pytest.param(
            "var a 1\n var b a + 1\n expr b == 2 && proto() == 'udp'\n"
            ' answer "{{ .Name }} 60 IN A 10.0.{{ .Var.a }}.{{ .Var.b }}"',
            "a.example.",
            ["a.example. 60 IN A 10.0.1.2"],
            id="variables",
        ),
        pytest.param(
            "var ip replace(trimSuffix(name(), '.example.'), '-', '.')\n"
            " expr \"any(['10.0.0.0/8', '172.16.0.0/12'], incidr(ip, #))\"\n"
            ' answer "{{ .Name }} 60 IN A {{ .Var.ip }}"',
            "172-16-0-9.example.",
            ["172-16-0-9.example. 60 IN A 172.16.0.9"],
            id="condition",
        ),
    ],
)
def test_answers(lines: str, qname: str, answers: list[str]) -> None:
    found = answer(f"template IN A example {{\n {lines}\n}}", qname)
    assert found == Reply(answer=found.answer, aa=True)
    assert section(found.answer) == answers


def test_other_sections_and_rcode() -> None:
    text = """template ANY ANY example {
 rcode NXDOMAIN
 authority "example. 60 {{ .Class }} SOA ns.example. h.example. (1 2 3 4 5)"
 additional "ns.example. 60 IN A 192.0.2.53"
 ederror 21 "blocked"
}"""
    found = answer(text, "a.example.", "TXT")
    assert (found.rcode, found.aa, found.answer) == (3, True, ())
    assert section(found.authority) == ["example. 60 IN SOA ns.example. h.example. 1 2 3 4 5"]
    assert section(found.additional) == ["ns.example. 60 IN A 192.0.2.53"]
    assert found.edns_options == ((15, b"\0\x15blocked"),)
    assert found.edns is not None
    assert (found.edns.payload_size, found.edns.do) == (4096, True)


def test_nxdomain_for_all_names() -> None:
    assert answer("template ANY ANY {\n rcode NXDOMAIN\n}", "a.b.", "MX") == Reply(rcode=3, aa=True)


@pytest.mark.parametrize(
    ("text", "qname", "expected"),
    [
        pytest.param("template IN A example", "a.net.", PASSED, id="outside"),
        pytest.param("template IN MX example", "a.example.", PASSED, id="other-type"),
        pytest.param(
            "template IN A example {\n match ^b\n}",
            "a.example.",
            unwritten(Rcode.SERVFAIL),
            id="no-match",
        ),
        pytest.param(
            "template IN A example {\n match ^b\n fallthrough\n}", "a.example.", PASSED, id="passes"
        ),
        pytest.param(
            "template IN A example {\n match ^b\n fallthrough\n}\n"
            "template IN A example {\n rcode REFUSED\n}",
            "a.example.",
            Reply(rcode=5, aa=True),
            id="to-next-rule",
        ),
        pytest.param(
            "template IN A example {\n match ^b\n}\ntemplate IN A example {\n rcode REFUSED\n}",
            "a.example.",
            unwritten(Rcode.SERVFAIL),
            id="no-fallthrough",
        ),
        pytest.param(
            'template IN A example {\n rcode SERVFAIL\n answer "a A 192.0.2.1"\n}',
            "a.example.",
            unwritten(Rcode.SERVFAIL),
            id="no-records-with-servfail",
        ),
    ],
)
def test_match_and_fallthrough(text: str, qname: str, expected: Reply) -> None:
    assert answer(text, qname) == expected


@pytest.mark.parametrize(
    ("qtype", "target", "answers", "is_truncated"),
    [
        pytest.param(
            "A",
            reply(["b. 5 IN A 192.0.2.1"], aa=True),
            ["a. 60 IN CNAME b.", "b. 5 IN A 192.0.2.1"],
            False,
            id="completed",
        ),
        pytest.param("AAAA", Reply(rcode=2), ["a. 60 IN CNAME b."], False, id="target-fails"),
        pytest.param("A", Reply(tc=True), ["a. 60 IN CNAME b."], True, id="target-truncated"),
        pytest.param("CNAME", None, ["a. 60 IN CNAME b."], False, id="query-for-cname"),
        pytest.param("MX", None, ["a. 60 IN CNAME b."], False, id="other-type"),
    ],
)
def test_cname(qtype: str, target: Reply | None, answers: list[str], is_truncated: bool) -> None:
    resolver = None if target is None else lambda request: target
    template = Started('template IN ANY {\n answer "a. 60 IN CNAME b."\n}', resolver)
    found = template.ask("a.", qtype)
    assert (section(found.answer), found.tc, found.rcode) == (answers, is_truncated, 0)
    assert [(each.query.qname.to_text(), each.depth) for each in template.lookups] == (
        [] if target is None else [("b.", 1)]
    )


def test_a_reply_with_a_target_in_the_cluster_is_fresh() -> None:
    target = reply(["b. 5 IN A 192.0.2.1"], fresh=True).held(lambda: False)
    template = Started('template IN ANY {\n answer "a. 60 IN CNAME b."\n}', lambda request: target)
    found = template.ask("a.", "A")
    assert found.fresh
    assert found.still_holds is not None
    assert not found.still_holds()


def test_metrics() -> None:
    template = Started("""template IN ANY example {
 match ^good
 answer "{{ .Name }} A 192.0.2.1"
 fallthrough
}
template IN ANY example {
 match ^index
 answer "{{ index  .Match 9 }}"
 fallthrough
}
template IN ANY example {
 match ^text
 additional "{{ .Name }} x"
 fallthrough
}""")
    for qname in ("good.example.", "good.example.", "other.example."):
        template.ask(qname)
    assert template.ask("index.example.").error == (
        "plugin/template: index 9 is out of range, there are 1"
    )
    assert template.ask("text.example.", "MX", server="dns://:5353").rcode == 2
    matches, templates, records = template.counted
    server, kind = "dns://:53", ("example.", "", "IN", "A")
    assert matches == {
        (server, *kind): 3,
        ("dns://:5353", "example.", "", "IN", "MX"): 1,
    }
    assert templates == {(server, *kind, "answer", "{{index .Match 9}}"): 1}
    assert records == {("dns://:5353", "example.", "", "IN", "MX", "additional", "{{.Name}} x"): 1}


def test_metadata_and_view() -> None:
    template = Started(
        'template IN TXT {\n answer "{{ .Name }} TXT \\"{{ .Meta \\"a/b\\" }}\\""\n}'
    )
    request = make_request("a.", "TXT").replace(metadata={"a/b": lambda: "x"}, view="inside")
    found = finish(template.plugin.handle(request, next_with(PASSED)))
    assert section(found.answer) == ['a. 3600 IN TXT "x"']
    assert template.counted[0] == {("dns://:53", ".", "inside", "IN", "TXT"): 1}


@pytest.mark.parametrize(
    ("text", "cacheable"),
    [
        ("template IN A", True),
        ("template IN A {\n match ^a\n answer x\n fallthrough\n}", True),
        ("template IN A {\n var a 1\n}", False),
        ("template IN A\ntemplate IN AAAA {\n expr true\n}", False),
    ],
)
def test_cacheable(text: str, cacheable: bool) -> None:
    assert set_up(Template, text).cacheable is cacheable


@pytest.mark.parametrize(
    ("text", "zone", "names"),
    [
        ("template IN A", "cluster.local.", None),
        ("template IN A cluster.local", "cluster.local.", None),
        ("template IN A a.cluster.local b.net", "cluster.local.", ("a.cluster.local.",)),
        ("template IN A example.org", "cluster.local.", ()),
    ],
)
def test_names_answered_first(text: str, zone: str, names: tuple[str, ...] | None) -> None:
    found = set_up(Template, text).names_answered_first(Name.from_text(zone))
    assert (None if found is None else tuple(name.to_text() for name in found)) == names
