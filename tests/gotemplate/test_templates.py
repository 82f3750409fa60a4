"""Templates, as templates.txt writes them: output, errors and spelling; limits and properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies

from hsdns.gotemplate.evaluate import MAX_OUTPUT, Template
from hsdns.gotemplate.functions import (
    MAX_WIDTH,
    MISSING,
    Method,
    Record,
    StringMap,
    is_true,
    kind_of,
    parse_int,
    sprintf,
    to_text,
)
from hsdns.gotemplate.tree import TemplateError
from tests.support.tables import columns

TABLE = Path(__file__).with_name("templates.txt")
QUESTION = Record("dns.Question", {"Name": "ip-10-1.Example.org.", "Qtype": 1, "Qclass": 1})
PAIR = Record("pair", {"A": 1, "B": "x", "C": Method(0, lambda: 1)})
DATA = Record(
    "template data",
    {
        "Zone": "example.org.",
        "Name": "ip-10-1.example.org.",
        "Match": ["ip-10-1", "10", "1"],
        "Group": StringMap({"0": "ip-10-1", "1": "10", "a": "10"}),
        "Type": "A",
        "Question": QUESTION,
        "Var": {"n": 5, "f": 1.5, "s": "x", "b": True, "l": [1, "a", 2.5], "m": {"k": "v"}, "nil": None},
        "More": {"two": [1, 2], "list": [1, "a"], "empty": [], "none": {}, "pair": PAIR},
        "Meta": Method(1, lambda label: "meta" if label == "test/a" else ""),
    },
)  # fmt: skip


@pytest.mark.parametrize(("text", "output"), columns(TABLE, "output"))
def test_output(text: str, output: str) -> None:
    template = Template.from_text(text)
    assert template.render(DATA) == template.render(DATA) == output


@pytest.mark.parametrize(("text", "reason"), columns(TABLE, "errors of the output"))
def test_errors_of_the_output(text: str, reason: str) -> None:
    template = Template.from_text(text)
    with pytest.raises(TemplateError) as caught:
        template.render(DATA)
    assert f"{caught.value.at}: {caught.value.message}" == reason


@pytest.mark.parametrize(("text", "reason"), columns(TABLE, "errors of the syntax"))
def test_errors_of_the_syntax(text: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template.from_text(text)
    assert f"{caught.value.at}: {caught.value.message}" == reason


@pytest.mark.parametrize(("text", "spelling"), columns(TABLE, "spelling of Go"))
def test_spelling_of_go(text: str, spelling: str) -> None:
    assert str(Template.from_text(text)) == spelling


@pytest.mark.parametrize(
    ("value", "text", "kind", "truth"),
    [
        ([1, PAIR], "[1 {1 x}]", "slice", True),
        ({"b": 1, "a": "x"}, "map[a:x b:1]", "map", True),
        (StringMap(a="x"), "map[a:x]", "map", True),
        (PAIR, "{1 x}", "pair", True),
        (None, "<nil>", "nil", False),
        (MISSING, "<no value>", "nil", False),
    ],
)
def test_what_a_value_is(value: object, text: str, kind: str, truth: bool) -> None:
    assert (to_text(value), kind_of(value), is_true(value)) == (text, kind, truth)


# --- limits ---


def test_nested_too_deeply() -> None:
    inside = "{{ if true }}" * 35 + "{{ template `t` }}" + "{{ end }}" * 35
    text = "{{ define `t` }}" + inside + "{{ end }}{{ template `t` }}"
    with pytest.raises(TemplateError, match="deep"):
        Template.from_text(text).render(DATA)


def test_output_up_to_the_limit() -> None:
    text = "{{ range 64 }}" + "x" * (MAX_OUTPUT // 64) + "{{ end }}"
    assert len(Template.from_text(text).render(DATA)) == MAX_OUTPUT


def test_widths_are_limited() -> None:
    assert sprintf("%99999d", [1]) == "1".rjust(MAX_WIDTH)


# --- properties ---


@given(
    strategies.text(alphabet="%+-# 0123.*[]dsxXqvTtgefcUbo", max_size=20),
    strategies.lists(strategies.one_of(
        strategies.none(), strategies.booleans(), strategies.integers(), strategies.floats(), strategies.text()
    ), max_size=4),
)  # fmt: skip
def test_sprintf_never_fails(form: str, values: list[object]) -> None:
    assert isinstance(sprintf(form, values), str)


@given(strategies.integers(0, 2**64 - 1), strategies.sampled_from([2, 8, 10, 16]))
def test_parse_int_reads_what_was_written(number: int, radix: int) -> None:
    form = {2: "b", 8: "o", 10: "d", 16: "x"}[radix]
    assert parse_int(format(number, form), radix, 64) == number


@given(strategies.text(alphabet='{}-.$|:=()"`/* ifrangewithendNamelsbk1', max_size=40))
def test_any_text_gives_a_text_or_an_error(text: str) -> None:
    try:
        Template.from_text(text).render(DATA)
    except TemplateError as error:
        assert -1 <= error.at <= len(text)


@given(strategies.lists(strategies.sampled_from(
    ["{{ .Name }}", "{{ if .Var.b }}", "{{ range .Match }}", "{{ end }}", "{{ else }}", "x", "{{ break }}",
     "{{ $a := 1 }}", "{{ $a }}", "{{- 1 -}}", " ", "{{ with .Group }}", "{{ .a }}"]), max_size=12))  # fmt: skip
def test_the_spelling_of_go_means_the_same(parts: list[str]) -> None:
    try:
        template = Template.from_text("".join(parts))
    except TemplateError:
        return
    again = Template.from_text(str(template))
    assert str(again) == str(template)
    try:
        made = template.render(DATA)
    except TemplateError:
        return
    assert again.render(DATA) == made
