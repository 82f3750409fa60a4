"""docs/faults.md: its commands against a server, and its tables against the words of a rule."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS, read_rule
from loadtest.ports import free_port
from tests.docs.test_examples import Fence, as_pattern, fences
from tests.support.clients.command import run_command, serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
FENCES = list(fences(PAGE))
CONSOLES = [each for each in FENCES if each.language == "console" and "lab.sock" in each.body]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def server() -> Iterator[str]:
    """The server of the page; its port."""
    (serve,) = (each.body for each in FENCES if each.body.startswith("hsdns serve"))
    manifest = next(each.body for each in FENCES if each.title == "web.yaml")
    Path("web.yaml").write_text(manifest)
    port = str(free_port())
    with serving(*serve.split()[1:], "-p", port):
        yield port


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.parametrize("fence", CONSOLES, ids=str)
def test_commands_print_what_the_page_says(fence: Fence) -> None:
    with server() as port:
        for command, expected in fence.commands:
            program, *words = shlex.split(command.replace(" 1053", f" {port}"))
            assert program == "hsdns"
            wanted = as_pattern(expected.replace(" 1053", f" {port}"))
            end = time.monotonic() + 30
            _, printed = run_command(words)
            # A server dies after it has said that it has the rule, so the one before may still answer.
            while (
                "refused" in expected and not wanted.fullmatch(printed) and time.monotonic() < end
            ):
                _, printed = run_command(words)
            assert wanted.fullmatch(printed), printed


@pytest.mark.parametrize(
    ("title", "known"), [("action", ACTIONS), ("selector", SELECTORS), ("option", OPTIONS)]
)
def test_every_word_is_described(title: str, known: dict[str, object]) -> None:
    table = PAGE.read_text().partition(f"\n| {title} | ")[2].partition("\n\n")[0]
    first = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    words = [code.split()[0] for cell in first for code in re.findall(r"`([^`]+)`", cell)]
    assert set(words) - {"tcp", "dot", "doh"} == set(known)


def test_rules_in_the_text_are_rules() -> None:
    found = re.findall(r"`((?:not|type|client|share) [^`]*)`", PAGE.read_text())
    rules = [each for each in found if not re.search(r"[A-Z]{3}[A-Z]*$|[A-Z]+/", each)]
    assert len(rules) > 2
    for each in rules:
        read_rule(["drop", *each.split()])
