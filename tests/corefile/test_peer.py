"""What hsdns calls valid, CoreDNS starts with: over generated Corefiles, and what CoreDNS did with each is recorded.

Path: generated.py -> the binary of HSDNS_PEER, or tests/peer_replies/corefiles.jsonl.zst -> check() of `-validate`.
Rule 1: hsdns may refuse what CoreDNS starts with only for a reason that docs/corefile.md lists, which REFUSED has.
Rule 2: the recording has the Corefiles too, so that a change of what makes them changes nothing here.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from hsdns.cli.coredns import check
from hsdns.cli.launch import CorefileSource
from hsdns.rules.judging import judge, read_files
from tests.corefile.generated import corefile
from tests.support.peer_replies import IS_RECORDING, PEER, Entry, Recording, asks_peer
from tests.support.tables import Row, rows

HALF: Final = 1000  # of those with which CoreDNS starts, and of the others
PARTS: Final = 8
PUBLIC: Final = "public"
RECORDING: Final = Recording(
    "corefiles.jsonl.zst", [PEER, "-version"], "make peer-record HSDNS_PEER=/path/to/coredns"
)
# CoreDNS is past its setup.
STARTED: Final = re.compile(rb"^CoreDNS-|waiting for Kubernetes", re.MULTILINE | re.IGNORECASE)
# Messages of hsdns about what CoreDNS starts with; docs/corefile.md has a line for each.
REFUSED: Final = re.compile(
    r'has no properties[,;] |the "\{" of .* must be at the end of the same line|expected the end of the line after the '
    r'"\}"|has no braces within its braces|takes (no|1|2|at least 1) arguments?, found|takes CAPACITY|may occur only once|'
    r'exists in CoreDNS but not in hsdns|of pprof is not supported|needs "directory"|needs a master file|'
    r"is not an IP address, a file or a host name|names no zone|CoreDNS reads no properties of dns64|"
    r'CoreDNS reads this "(bufsize|cancel|reload|root)" as a property'
)
KUBERNETES: Final = re.compile(r"^([ \t]*kubernetes\b[^{\n]*)(\{?)$", re.MULTILINE)
TESTS: Final = Path(__file__).parents[1]
ENVIRON: Final = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "9"}


def starts(text: str, folder: Path) -> bool:
    """Whether CoreDNS sets up a Corefile and begins to start."""
    (folder / "Corefile").write_text(text)
    with subprocess.Popen(
        [PEER, "-conf", "Corefile", "-dns.port", "0"],
        cwd=folder,
        env=ENVIRON,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        printed = b""
        while not STARTED.search(printed) and (read := os.read(process.stdout.fileno(), 1 << 16)):
            printed += read
        process.kill()
    return STARTED.search(printed) is not None


def recorded(part: int | str) -> list[tuple[str, bool]]:
    """Generated Corefiles, and whether CoreDNS starts with them."""
    return [(text, is_valid) for text, is_valid in RECORDING.found(f"{part}").data]


def public() -> Iterator[str]:
    """The Corefiles of other projects in this tree, with an API server that no service account is needed for."""
    right = (
        row.values[0] for row in rows(TESTS / "rules" / "right.txt") if "Corefile" in str(row.id)
    )
    stock = (path.read_text() for path in sorted(TESTS.glob("stock/*/Corefile")))
    for text in (*(each.given for each in right if isinstance(each, Row)), *stock):
        if "169.254." not in text:  # an address that only nodes have
            yield KUBERNETES.sub(_without_account, f"{text}\n")


def _without_account(line: re.Match[str]) -> str:
    return f"{line[1]} {{\n endpoint http://127.0.0.1:9{'' if line[2] else f'{chr(10)}}}'}"


@pytest.mark.peer
@asks_peer
@pytest.mark.parametrize("part", [*range(PARTS), PUBLIC])
def test_coredns_does_what_is_recorded(part: int | str, tmp_path: Path) -> None:
    if IS_RECORDING:
        texts = ((text, starts(text, tmp_path)) for text in public())
        found = _found(part, tmp_path) if isinstance(part, int) else texts
        RECORDING.save(Entry(f"{part}", [], list(found)))
        return
    assert [(text, starts(text, tmp_path)) for text, _ in recorded(part)] == recorded(part)


def _found(part: int, folder: Path) -> Iterator[tuple[str, bool]]:
    left = {True: HALF // PARTS, False: HALF // PARTS}
    for number in count():
        text = corefile(number * PARTS + part)
        is_valid = starts(text, folder)
        if left[is_valid]:
            left[is_valid] -= 1
            yield text, is_valid
        if not any(left.values()):
            return


@pytest.mark.parametrize("part", [*range(PARTS), PUBLIC])
def test_valid_is_what_coredns_starts_with(
    part: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    wrong = list[str]()
    for text, is_valid in recorded(part):
        errors = check(CorefileSource("Corefile", "", text), 0).errors
        if not is_valid and not errors:
            wrong.append(f"CoreDNS refuses, hsdns does not:\n{text}")
        wrong += [
            f"{error}\n{text}" for error in errors if is_valid and not REFUSED.search(str(error))
        ][:1]
    assert not wrong, "\n".join(wrong)


# What lint does not tell: what depends on the machine or its environment, and what only hsdns lacks.
OF_MACHINE: Final = re.compile(
    r"No such file|does not exist|neither an IP address nor an interface|but not in hsdns|of pprof is not supported|"
    r"nothing to import"
)
UNKNOWN: Final = re.compile(r"unknown directive|external plugin|in CoreDNS 1\.|since CoreDNS")


@pytest.mark.parametrize("part", range(PARTS))
def test_lint_finds_what_validate_finds(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    wrong = list[str]()
    for text, _ in recorded(part):
        if "{$" in text or (
            "bind" in text and "bind 127.0.0.1\n" not in text
        ):  # the machine has them
            continue
        found = check(CorefileSource("Corefile", "", text), 53)
        errors = {str(each) for each in found.errors if not OF_MACHINE.search(each.message)}
        others = {
            str(each)
            for each in (*found.warnings, *found.hints)
            if not OF_MACHINE.search(each.message)
        }
        judged = judge(read_files([("Corefile", text.encode())]).objects, preview=True).findings
        linted = {f"{each.at}: {each.remark.sentence}": each.rule.code for each in judged}
        refused = {sentence for sentence, code in linted.items() if code == "HS201"}
        # Beside a directive that may be of another build, only a part of its block is judged.
        is_whole = "import" not in text and not any(map(UNKNOWN.search, errors))
        if not refused <= errors or (
            is_whole and (errors, others) != (refused, others & linted.keys())
        ):
            wrong.append(f"{text}{errors ^ refused}{others - linted.keys()}")
    assert not wrong, "\n".join(wrong)
