"""The domain name that a person means, from a table of words."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.ask.names import BadWord, full_name, read_word
from tests.support.tables import columns

TABLE = Path(__file__).parent / "names.txt"


def meant(text: str, domain: str) -> str:
    given, _, namespace = text.partition(" [")
    try:
        word = read_word(given, namespace.removesuffix("]"))
        if word.kind == "address":
            return word.name
        zones = ["cluster.local.", "example.org."]
        return full_name(word, domain, zones, {"shop", "nginx-ingress"}.__contains__)
    except BadWord as error:
        return str(error)


@pytest.mark.parametrize(("word", "name"), columns(TABLE, "words"))
def test_words(word: str, name: str) -> None:
    assert meant(word, "cluster.local") == name


@pytest.mark.parametrize(("word", "name"), columns(TABLE, "without a cluster"))
def test_words_without_a_cluster(word: str, name: str) -> None:
    assert meant(word, "") == name


def test_no_word() -> None:
    with pytest.raises(BadWord, match="the name is empty"):
        read_word("")
