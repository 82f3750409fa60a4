from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.rewriting.rule import Rule, exact, suffix
from hsdns.rewriting.syntax import absolute, read_rule
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from tests.rewriting.applied import reply_after
from tests.support.plugins.requests import make_request, reply, section

START = Position("Corefile", 2, 1)


def read(text: str, warnings: list[str] | None = None) -> Rule:
    """Parse the arguments of `rewrite`; the first one is in column 9."""
    words, column = [], 9
    for word in text.split(" "):
        words.append(Token(word, Position("Corefile", 2, column)))
        column += len(word) + 1
    return read_rule(words, START, (warnings if warnings is not None else []).append)


def asked(rule: Rule, qname: str) -> Query:
    request = make_request(qname)
    return rule.apply(request.query, request).query


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("name a b", True),
        ("stop name a b", True),
        ("continue name a b", False),
        ("CONTINUE NAME a b", False),
        ("Stop ttl a 5", True),
        ("continue ttl a 5", False),
        ("continue type A AAAA", False),
        ("continue class IN CH", False),
        ("continue cname a b", False),
        ("continue rcode a 2 3", False),
        ("continue edns0 nsid set", False),
    ],
)
def test_continue_and_stop(text: str, stops: bool) -> None:
    assert read(text).stops is stops


@pytest.mark.parametrize(
    ("text", "qname", "becomes"),
    [
        ("name a.B C.d", "A.b.", "c.d."),
        ("name exact a.b. c.d.", "a.b.", "c.d."),
        ("name Exact a.b c.d", "x.a.b.", "x.a.b."),
        ("name prefix a. x.", "a.b.", "x.b."),
        ("name prefix a x", "a.b.", "x.b."),
        ("name prefix a- x-", "a-b.c.", "a-b.c."),
        ("name prefix a- x-", "a-.c.", "x-.c."),
        ("name suffix .b .y", "a.b.", "a.y."),
        ("name suffix b y", "ab.", "ay."),
        ("name substring b y", "a.b.c.", "a.y.c."),
        ("name substring b y", "a.bb.c.", "a.by.c."),
        ("name substring b y", "a.b1.c.", "a.b1.c."),
        (r"name regex ^A.* x", "a.", "a."),
        (r"name regex ^(a).* X{1}", "aa.", "xa."),
        (r"name regex ^(.)(.)\.$ {2}{1}", "ab.", "ba."),
        (r"name a\.b x", r"a\.b.", "x."),
        (r"name \097 x", "a.", "x."),
        ("name prefix a. x.", "aa.b.", "aa.b."),
        ("name prefix a. x.", "a.", "x."),
        ("name suffix .b .y", "b.", "b."),
        ("name substring .b. .y.", "a.b.c.b.d.", "a.y.c.y.d."),
        (r"name regex ^(.*)\.(b)\.$ {2}.{1}.y", "a.a.b.", "b.a.a.y."),
        ("name regex (x)?a {1}-{1}", "a.", "-."),
        ("name regex (.*) {1}x", "{2}.", r"{2}.x."),
        ("name regex (.*)-(.).* {1}", "{2}-y.", "y."),
    ],
)
def test_names(text: str, qname: str, becomes: str) -> None:
    assert asked(read(text), qname).qname.to_text() == becomes


ANSWERS = ["b.y. 1 IN CNAME c.b.y.", "z. 1 IN CNAME z."]


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ("name exact a.x b.y", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
        ("name prefix a.x. b.y.", ANSWERS),
        ("name prefix a.x. b.y. answer auto", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
        ("name suffix a.x. b.y. answer auto", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
        ("name suffix .x .y", ANSWERS),
        ("name substring a.x. b.y. answer auto", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
        ("name regex a b.y answer auto", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
        ("name regex a b.y answer name ^(b)\\.y q.{1}", ["q.b. 1 IN CNAME c.b.y.", "z. 1 IN CNAME z."]),
        ("name regex a b.y answer value ^(.)\\.b\\.y\\.$ q.{1}", ["b.y. 1 IN CNAME q.c.", "z. 1 IN CNAME z."]),
        (
            "name regex a b.y answer name ^b\\.y\\.$ o value ^(.)\\.b\\.y\\.$ v answer value z w",
            ["o. 1 IN CNAME v.", "z. 1 IN CNAME w."],
        ),
        ("name regex a b.y answer auto value z w", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME w."]),
        ("name exact a.x b.y answer value z w", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME w."]),
        ("name exact a.x b.y answer auto", ["a.x. 1 IN CNAME c.a.x.", "z. 1 IN CNAME z."]),
    ],
)  # fmt: skip
def test_answers(options: str, answer: list[str]) -> None:
    assert section(reply_after(read(options), "a.x.", reply(ANSWERS)).answer) == answer


@pytest.mark.parametrize(
    ("text", "ttls"),
    [
        ("ttl a 7", [7, 7, 7]),
        ("ttl exact a 0", [0, 0, 0]),
        ("ttl suffix a 5-10", [5, 7, 10]),
        ("ttl prefix a. 5-", [5, 7, 99]),
        ("ttl substring a. -7", [1, 7, 7]),
        ("ttl regex ^a 8-8", [8, 8, 8]),
        ("ttl regex ^b 8-8", [1, 7, 99]),
        ("ttl b 8", [1, 7, 99]),
    ],
)
def test_ttls(text: str, ttls: list[int]) -> None:
    below = reply([f"a. {ttl} IN A 192.0.2.1" for ttl in (1, 7, 99)])
    assert [record.ttl for record in reply_after(read(text), "a.", below).answer] == ttls


@pytest.mark.parametrize(
    ("text", "rcode"),
    [
        ("rcode a SERVFAIL NXDOMAIN", 3),
        ("rcode exact a 2 3", 3),
        ("rcode suffix a servfail 0", 0),
        ("rcode prefix a. 2 BADSIG", 16),
        ("rcode substring a. 2 BADVERS", 16),
        ("rcode regex . SERVFAIL BADCOOKIE", 23),
        ("rcode regex . SERVFAIL 11", 11),
        ("rcode regex . NOTIMP 11", 2),
        ("rcode b SERVFAIL 11", 2),
    ],
)
def test_rcodes(text: str, rcode: int) -> None:
    assert reply_after(read(text), "a.", Reply(rcode=2)).rcode == rcode


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("cname Old.net new.net", "new.net."),
        ("cname exact old.net. new.net.", "new.net."),
        ("cname exact d.net new.net", None),
        ("cname prefix ol ne", "ned.net."),
        ("cname suffix .net. .org.", "old.org."),
        ("cname suffix .net .org", None),
        ("cname substring d.n D.M", "old.met."),
        ("cname regex ^(.*)\\.net {1}.org", "old.org."),
        ("cname regex ^(.*)\\.NET {1}.org", "old.org."),
    ],
)
def test_cnames(text: str, target: str | None) -> None:
    below = reply(["a. 1 IN CNAME old.net.", "old.net. 1 IN A 192.0.2.1"])
    found = reply_after(read(text), "a.", below, lookup=lambda qname: Reply())
    if target is None:
        assert found == below
    else:
        assert section(found.answer) == [f"a. 1 IN CNAME {target}"]


@pytest.mark.parametrize(
    ("text", "question", "becomes"),
    [
        ("type any TYPE65280", ("ANY", "IN"), ("TYPE65280", "IN")),
        ("type TXT A", ("TXT", "CH"), ("A", "CH")),
        ("type TXT A", ("A", "IN"), ("A", "IN")),
        ("class ch In", ("TXT", "CH"), ("TXT", "IN")),
        ("class CH IN", ("TXT", "HS"), ("TXT", "HS")),
    ],
)
def test_types_and_classes(text: str, question: tuple[str, str], becomes: tuple[str, str]) -> None:
    request = make_request("a.b.", question[0], qclass=question[1])
    step = read(text).apply(request.query, request)
    assert step.query == make_request("a.b.", becomes[0], qclass=becomes[1]).query
    assert (step.undo, step.is_done) == ((), question != becomes)


# The names of the zone example.org whose answer a rule may change; None: any.
AFFECTED: list[tuple[str, tuple[str, ...] | None]] = [
    ("name www.example.org b", ("www.example.org.",)),
    ("name example.org b", ("example.org.",)),
    ("name exact org b", ()),
    ("name exact a..b b", ()),
    ("name suffix .www.example.org b", ("www.example.org.",)),
    ("name suffix x.www.example.org b", ("www.example.org.",)),
    ("name suffix .example.org b", None),
    ("name suffix www.example.org b", None),
    ("name suffix org b", None),
    ("name suffix . b", None),
    ("name suffix .example.net b", ()),
    (r"name suffix \..www.example.org b", None),
    ("name prefix a. b", None),
    ("name substring a. b", None),
    ("name regex a b", None),
    ("ttl a.example.org 5", ("a.example.org.",)),
    ("rcode prefix a. 2 3", None),
    ("type AAAA A", None),
    ("type ANY HINFO", ()),
    ("class IN CH", None),
    ("class CH IN", ()),
    ("cname a b", ()),
    ("edns0 nsid set", None),
]


@pytest.mark.parametrize(("text", "names"), AFFECTED)
def test_affected_names(text: str, names: tuple[str, ...] | None) -> None:
    expected = None if names is None else tuple(Name.from_text(each) for each in names)
    rule = read(text)
    assert rule.affected_names(Name.from_text("example.org.")) == expected
    assert rule.is_pure is not text.startswith("edns0")


LABELS = st.text("ab-", min_size=1, max_size=3)
NAMES = st.lists(LABELS, max_size=4).map(lambda labels: ".".join([*labels, ""]) or ".")


@given(NAMES, NAMES, st.text("ab-.", max_size=6))
def test_what_matches_is_affected(qname: str, zone: str, start: str) -> None:
    """For a name that affected_names() does not cover, negative answers are given without the rule."""
    name, region = Name.from_text(qname), Name.from_text(zone)
    if not name.is_at_or_below(region):
        return
    for make, text in product((exact, suffix), (start + ".", qname)):
        matcher = make(text)
        names = matcher.affected_names(region)
        if names is not None and not any(name.is_at_or_below(each) for each in names):
            assert not matcher.matches(qname)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("A.b", "a.b."), ("a.", "a."), (".", "."), ("", "."), (r"a\.", r"a\.."), (r"a\\.", r"a\\.")],
)
def test_absolute(text: str, expected: str) -> None:
    assert absolute(text) == expected


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "name prefix foo- bar-",
            'Corefile:2:21: prefix "foo-" is read as "foo-.", as in CoreDNS, so it matches at the end of a label only; '
            "use regex for other places",
        ),
        (
            "ttl substring foo 5",
            'Corefile:2:23: substring "foo" is read as "foo.", as in CoreDNS, so it matches at the end of a label only; '
            "use regex for other places",
        ),
        ("rcode exact a..b 2 3", 'Corefile:2:21: "a..b" is not a domain name, so the rule never matches'),
        (
            "name regex (a) {2}",
            'Corefile:2:24: "{2}" in "{2}" is not replaced: "(a)" has 1 groups',
        ),
        (
            "cname regex a {1}",
            'Corefile:2:23: "{1}" in "{1}" is not replaced: "a" has 0 groups',
        ),
    ],
)  # fmt: skip
def test_warnings(text: str, warning: str) -> None:
    warnings: list[str] = []
    read(text, warnings)
    assert warnings == [warning]


@pytest.mark.parametrize(
    "text",
    [
        "name prefix foo. bar.",
        "name substring service.example.org service.example.net",
        "name suffix .a .b",
        "name a b",
        "name regex (a)(b) {1}{2}",
    ],
)
def test_no_warning(text: str) -> None:
    warnings: list[str] = []
    read(text, warnings)
    assert warnings == []


NAME = "[exact|prefix|suffix|substring|regex] FROM TO [answer ...]"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("continue", "1: rewrite needs a field: name, type, class, edns0, ttl, cname, rcode"),
        ("answer auto", '9: "answer" must follow a name rule: name exact FROM TO answer auto'),
        ("nam a b", '9: "nam" is not a field of rewrite; fields are name, type, class, edns0, ttl, cname, rcode; did you mean "name"?'),
        ("stop x", '14: "x" is not a field of rewrite; fields are name, type, class, edns0, ttl, cname, rcode'),
        ("name", f'9: "name" of rewrite takes {NAME}, found 0 arguments'),
        ("name a", f'9: "name" of rewrite takes {NAME}, found 1 arguments'),
        ("name exakt a b", '14: "exakt" is not a kind of match; kinds are exact, prefix, suffix, substring, regex; did you mean "exact"?'),
        ("name regex ( b", '20: "(" is not a regular expression: missing ): ('),
        ("name regex a {0}", '22: "{0}" uses 1 groups, but "a" has 0'),
        ("name regex (a) {0}{1}", '24: "{0}{1}" uses 2 groups, but "(a)" has 1'),
        ("name exact a b auto", '24: only "answer" may follow FROM and TO, found "auto"'),
        ("name exact a b answer", '24: "answer" needs "auto", "name FROM TO" or "value FROM TO"'),
        ("name exact a b answer autos", '31: "autos" is not an answer rule; they are auto, name and value; did you mean "auto"?'),
        ("name exact a b answer name c", '31: "answer name" takes FROM and TO'),
        ("name exact a b answer auto name c d", '31: "answer auto" and "answer name" exclude each other; remove one of them'),
        ("name exact a b answer value c {1}", '39: "{1}" uses 1 groups, but "c" has 0'),
        ("type A", '9: "type" of rewrite takes FROM TO, found 1 arguments'),
        ("type A B", '16: "B" is not a record type'),
        ("class IN XX", '18: "XX" is not a class'),
        ("ttl a", '9: "ttl" of rewrite takes [exact|prefix|suffix|substring|regex] FROM SECONDS|MIN-MAX, found 1 arguments'),
        *(
            (f"ttl a {word}", f'15: "{word}" is not a TTL; write 30, 30-300, 30- or -300 (seconds)')
            for word in ("x", "-", "", "1-2-3", "5s", "+5")
        ),
        *(
            (f"ttl a {word}", f'15: "{word}" is not a range of TTLs; write the lower one first')
            for word in ("5-4", "4294967296", "0-4294967296")
        ),
        ("cname a", '9: "cname" of rewrite takes [exact|prefix|suffix|substring|regex] FROM TO, found 1 arguments'),
        ("cname regex [ b", '21: "[" is not a regular expression: missing ]: ['),
        ("rcode a 2", '9: "rcode" of rewrite takes [exact|prefix|suffix|substring|regex] NAME FROM TO, found 2 arguments'),
        ("rcode a 2 24", '19: "24" is not a response code'),
        ("rcode a NOPE 2", '17: "NOPE" is not a response code'),
        ("edns0 local", '9: "edns0" of rewrite takes local|nsid|subnet set|append|replace|unset ..., found 1 arguments'),
    ],
)  # fmt: skip
def test_refused(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read(text)
    assert str(caught.value) == f"Corefile:2:{error}"
