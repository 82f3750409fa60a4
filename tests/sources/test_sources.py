"""Lookup of sources by name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.cluster.source import Lead, NamedSource
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.sources import source_from
from hsdns.sources.push import PushSource
from hsdns.sources.replay import Replay
from hsdns.sources.synthetic import Shape, Synthetic
from tests.support.cluster.objects import deletes, service, upserts
from tests.support.tables import columns


def set_up(line: str) -> NamedSource:
    """The source that a line names, whose first word is in column 1."""
    tokens, column = [], 1
    for word in line.split(" "):
        tokens.append(Token(word, Position("Corefile", 3, column)))
        column += len(word) + 1
    return source_from(tokens[0], tokens[1:], ".")


@pytest.mark.parametrize(
    ("line", "sentence"), columns(Path(__file__).with_name("setup_errors.txt"), "sources")
)
def test_refused(line: str, sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        set_up(line)
    assert str(caught.value) == sentence


def test_settings() -> None:
    synthetic = set_up(
        "synthetic services=5 endpoints=2 headless=0.5 dual_stack=1 changes=1.5 seed=7"
    )
    assert isinstance(synthetic, Synthetic)
    assert (synthetic.shape, synthetic.changes) == (Shape(5, 2, 0.5, 1.0, 7), 1.5)
    replay = set_up("replay /a/../b.rec speed=2 at=1m paused=true")
    assert isinstance(replay, Replay)
    assert (replay.path, replay.speed, replay.at, replay.is_paused) == ("/b.rec", 2.0, 60.0, True)


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
