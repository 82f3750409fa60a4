"""The tree, its errors, and how they are collected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Errors, Position, Token, each_error
from hsdns.plugins import NOT_YET, ORDER

PLACE = Position("conf/Corefile", 12, 5)


def test_parse() -> None:
    assert Token("12", PLACE).parse(int) == 12
    with pytest.raises(CorefileError, match=r"^conf/Corefile:12:5: invalid literal"):
        Token("x", PLACE).parse(int)


def no_file(path: str) -> str:
    raise FileNotFoundError(path)


def errors_of(text: str, **files: str) -> list[str]:
    """All errors of a Corefile in order, each `LINE:COLUMN message` or, in an imported file, with its name."""

    def open_file(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    errors = Errors(collecting=True)
    corefile = parse(
        "Corefile",
        text=text,
        environ={},
        known_directives=ORDER,
        not_yet=NOT_YET,
        open_file=open_file,
        errors=errors,
    )
    assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [str(error).removeprefix("Corefile:") for error in errors.in_order()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(". {\nwhoami\n}", [], id="none"),
        pytest.param(
            ". {\n cach 30\n whoami\n etcd {\n  path /x\n }\n log {\n  clas all\n }\n}",
            [
                '2:2: unknown directive "cach"; did you mean "cache"?',
                '4:2: directive "etcd" exists in CoreDNS but not in hsdns yet; remove it',
                '8:3: unknown property "clas" of log; did you mean "class"?',
            ],
            id="directives-and-properties",
        ),
        pytest.param(
            ". {\n kubernetes cluster.local {\n  ttll 5\n  ttl x\n  pods maybe\n }\n}",
            [
                '3:3: unknown property "ttll" of kubernetes; did you mean "ttl"?',
                '4:7: "x" is not a whole number',
                '5:8: "maybe" is not one of: disabled, insecure, verified',
            ],
            id="lines-of-one-directive",
        ),
        pytest.param(
            ". {\n file\n file db.example.org {\n  reload x\n }\n}",
            [
                '2:2: "file" needs a master file, for example db.example.org',
                '4:10: "x" is not a duration; write a number and a unit such as "5s"',
            ],
            id="directives-of-one-plugin",
        ),
        pytest.param(
            "a:99999 quic://b c. {\n whoami x\n}\nc {\n bind nope\n log {\n  class x\n }\n}\nc {\n}",
            [
                '1:1: "99999" in "a:99999" is not a port; ports are 0 to 65535',
                '1:9: "quic://b": hsdns has no quic:// listener, since Python has no maintained QUIC library that '
                "works with its ssl module; it has dns://, tls://, https://",
                '2:9: "whoami" takes no argument, found "x"',
                '5:7: "nope" is neither an IP address nor an interface of this machine',
                '7:9: "x" is not one of: all, success, denial, error',
                "10:1: dns://c.:53 is already served by the block at Corefile:1:18; merge the blocks or change one of "
                "the keys",
            ],
            id="keys-and-blocks",
        ),
        pytest.param(
            "(s) {\n ttl x\n}\n(s) {\n}\na {\n import t\n import s s\n hosts {\n  import s\n }\n}\nb {\n hosts {\n  import s\n }\n}",
            [
                '2:6: "x" is not a whole number',
                '4:1: snippet "(s)" is defined twice; rename or remove this one',
                '7:9: nothing to import: there is no snippet "(t)" and no file t',
                '8:11: import takes one argument, also found "s"; write one import per line',
            ],
            id="snippets",
        ),
        pytest.param(
            "a {\n cach 30\n whoami x\n}\nb {\n cache 0 {\n  ttl\n whoami\n",
            [
                '2:2: unknown directive "cach"; did you mean "cache"?',
                '3:9: "whoami" takes no argument, found "x"',
                '6:10: the "{" of "cache" is never closed; add a "}" on a line of its own',
            ],
            id="before-one-that-ends-it",
        ),
        pytest.param(
            ". {\n cach 30\n whoami{\n ttl 5\n}\n}",
            [
                '2:2: unknown directive "cach"; did you mean "cache"?',
                '3:2: unknown directive "whoami{"; put a space before the "{"',
            ],
            id="a-brace-that-is-none",
        ),
        pytest.param(
            ". {\n autopath @kubernetes\n kubernetes cluster.local {\n  ttl x\n }\n transfer {\n }\n}",
            ['4:7: "x" is not a whole number', '6:2: transfer needs "to" with the addresses of secondaries, or "to *" for any client'],
            id="no-consequence-of-a-plugin-that-is-missing",
        ),
        pytest.param(
            ". {\n cache {\n  serve_stale x\n  serve_stale_policy prefer_positive\n }\n}",
            ['3:15: "x" is not a duration; write a number and a unit such as "5s"'],
            id="no-consequence-of-a-line-that-is-missing",
        ),
        pytest.param(
            ". {\n hosts {\n  fallthrough a..b\n  fallthrough_unsupported\n }\n}",
            ['3:15: "a..b" is not a domain name: a label is empty; remove a dot'],
            id="nor-about-its-directive",
        ),
        pytest.param(
            "tls://. {\n root\n tls nope.pem nope.key\n whoami x\n}",
            ['2:2: "root" takes one directory, found 0 arguments'],
            id="no-files-without-their-root",
        ),
        pytest.param(
            "tls://. {\n tls\n whoami\n}\ntls://org {\n whoami x\n}",
            [
                '2:2: "tls" takes 2 or 3 files, CERT KEY [CA], found 0',
                '6:9: "whoami" takes no argument, found "x"',
            ],
            id="no-certificate-of-a-tls-that-is-missing",
        ),
    ],
)  # fmt: skip
def test_all_errors(text: str, expected: list[str]) -> None:
    assert errors_of(text) == expected


STOCK = sorted((Path(__file__).parents[1] / "stock").glob("*/Corefile"))


@given(data=st.data())
def test_the_error_that_ends_a_start_is_among_them(data: st.DataObject) -> None:
    """Whatever is done to a Corefile: all are found without an exception, and none where it would start."""
    words = re.findall(r"\n|[^\s]+", data.draw(st.sampled_from(STOCK)).read_text())
    others = [*words, "{", "}", "import", "x", "-1", "{$UNSET}", '"', "(s)", "cach", "tls", "a,"]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(words)))
        new = data.draw(st.lists(st.sampled_from(others), max_size=2))
        words[at : at + data.draw(st.integers(0, 2))] = new
    text = " ".join(words)
    found = errors_of(text)
    try:
        corefile = parse(
            "Corefile",
            text=text,
            environ={},
            known_directives=ORDER,
            not_yet=NOT_YET,
            open_file=no_file,
        )
        assemble(
            corefile,
            interfaces=lambda: {"lo": ["127.0.0.1"]},
            validating=True,
            warn=lambda sentence: None,
        )
    except CorefileError as error:
        assert str(error).removeprefix("Corefile:") in found
    else:
        assert found == []


def test_the_first_one_is_raised_unless_they_are_collected() -> None:
    error = CorefileError(Position("Corefile", 1, 1), "no")
    with pytest.raises(CorefileError), Errors():
        raise error
    with pytest.raises(CorefileError):
        Errors().add(error)
    errors = Errors(collecting=True)
    assert not errors
    for _ in range(2):
        with errors:
            raise error
    assert errors.in_order() == [error]
    with pytest.raises(ValueError, match="other"), errors:
        raise ValueError("other")


def test_an_error_of_no_word_ends_the_search() -> None:
    def set_up(directives: object) -> None:
        raise CorefileError(Position("elsewhere", 1, 1), "no")

    corefile = parse("Corefile", text=". {\nlog\nlog\n}", environ={}, known_directives=ORDER)
    found = each_error(set_up, corefile.blocks[0].directives)
    assert [str(error) for error in found] == ["elsewhere:1:1: no"]
