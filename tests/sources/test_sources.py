"""Lookup of sources by name."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from hsdns.cluster.source import Lead
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.sources import SOURCES, source_from
from hsdns.sources.push import PushSource
from tests.support.cluster.objects import deletes, service, upserts


def token(text: str, column: int = 9) -> Token:
    return Token(text, Position("Corefile", 3, column))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("manifest", 'unknown source "manifest"; did you mean "manifests"?', id="near"),
        pytest.param(
            "kubeconfig",
            '"kubeconfig" is a property of its own: write "kubeconfig FILE" into the kubernetes block of '
            "a Corefile, in place of a source; a command takes the Corefile with -conf",
            id="property",
        ),
        pytest.param(
            "etcd", 'unknown source "etcd"; known are manifests, replay, synthetic', id="far"
        ),
    ],
)
def test_unknown_source(name: str, sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        source_from(token(name), [], ".")
    assert str(caught.value) == f"Corefile:3:9: {sentence}"


def test_a_known_source_is_set_up() -> None:
    found = source_from(token("synthetic"), [token("services=5")], ".")
    assert type(found).__name__ == SOURCES["synthetic"]


def test_sources_are_imported_when_they_are_used() -> None:
    code = "import sys, hsdns.sources; print('yaml' in sys.modules or 'watchfiles' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "False\n"


def test_the_source_finds_what_is_there_now() -> None:
    source = PushSource(upserts(service("shop/web", "10.96.0.1"), service("shop/db", "10.96.0.2")))
    source.load(lambda events: None, lambda level, message: None)
    lead = Lead(services=((b"shop", b"web"), (b"shop", b"db")))
    source.push([*upserts(service("shop/web", "10.96.0.3")), *deletes(service("shop/db"))])
    (found,) = asyncio.run(source.read(lead)).objects
    assert found == service("shop/web", "10.96.0.3")
