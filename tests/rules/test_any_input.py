"""No input makes a check fail: examples of the pages with parts of them replaced, and any text as a Corefile."""

from __future__ import annotations

import random
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from hsdns.rules.judging import judge, read_files
from hsdns.rules.rule import rules
from tests.rules.examples import examples

EXAMPLES = [
    each.content for rule in rules().values() for each in examples(rule) if each.language == "yaml"
]
WORDS = [each for rule in rules().values() for one in examples(rule) if one.language == "corefile" for each in one.content.split(" ")]  # fmt: skip
ODD: list[Any] = [
    None,
    [],
    {},
    "",
    0,
    -1,
    True,
    "x",
    [None],
    {"a": None},
    ["x"],
    {"None": "x"},
    1e9,
    "{{x}}",
]


def changed(value: Any, chosen: random.Random) -> Any:
    """A value with some of its parts replaced."""
    if chosen.random() < 0.06:
        return chosen.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(each, chosen) for key, each in value.items() if chosen.random() > 0.03}
    if isinstance(value, list):
        return [changed(each, chosen) for each in value]
    return value


@given(st.sampled_from(EXAMPLES), st.randoms(use_true_random=False), st.booleans())
def test_any_object_is_judged(content: str, chosen: random.Random, is_whole: bool) -> None:
    documents = [changed(each, chosen) for each in yaml.safe_load_all(content)]
    text = yaml.safe_dump_all(documents).encode()
    read = read_files([("a.yaml", text)], is_whole=is_whole)
    for each in judge(read.objects, read.silences, preview=True).findings:
        assert each.remark.position.line >= 1
        assert each.remark.position.column >= 1
        assert str(each).count("\n") == 0


@given(
    st.lists(st.sampled_from([*WORDS, "{", "}", "\n", "{$X}", "import a", "(", '"']), max_size=40)
)
def test_any_corefile_is_judged(words: list[str]) -> None:
    read = read_files([("Corefile", " ".join(words).encode())])
    judge(read.objects, read.silences)
