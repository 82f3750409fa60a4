"""Sessions at a shell: what commands print, to which output, and their exit status.

A page of sessions/ has the files of all its sessions, then a section for each session.  In it a fenced block with
`title="NAME"` is a file, an executable one in bin/; one in the language `http` is a server with that control socket,
with its pages by path and status, where `cut` is a page that ends too early.  A block in the language `console` has
commands, each with its standard output, its standard error behind `! `, and its exit status in brackets unless that is
0.  `...` stands for anything in a line, and alone on a line for any lines.  `hsdns` runs in this process, with `< FILE`
as its standard input, and `| jq PATH,...` for values of its JSON; other commands are those of a shell.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hsdns.cli import main, offline
from hsdns.sources.manifest_folder import standard_input
from tests.cli.test_running_server import chunked, listening, reply
from tests.docs.test_examples import FENCE, TITLE, as_pattern

FOLDER = Path(__file__).parent / "sessions"


class Session(NamedTuple):
    """A section, with the fenced blocks of the page and its own: language, title and body."""

    name: str
    blocks: list[tuple[str, str, str]]


def blocks(text: str) -> list[tuple[str, str, str]]:
    return [
        (each["language"], title[1] if (title := TITLE.search(each["rest"])) else "", each["body"])
        for each in FENCE.finditer(text)
    ]


def sessions(page: Path) -> Iterator[Session]:
    head, *sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    for section in sections:
        title = section.partition("\n")[0]
        yield Session(f"{page.stem}: {title}", [*blocks(head), *blocks(section)])


SESSIONS = [session for page in sorted(FOLDER.glob("*.md")) for session in sessions(page)]


def pages(text: str) -> dict[str, bytes]:
    """The replies of a server, by the last word of their path."""
    found = {}
    for part in re.split(r"^(?=/)", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        path, status = head.split()
        octets = body.encode()
        code = "" if status == "cut" else f"{status} {HTTPStatus(int(status)).phrase}"
        found[path.rpartition("/")[2]] = (
            reply(octets, code) if code else chunked(octets, whole=False)
        )
    return found


def values(value: Any, path: str) -> list[Any]:
    """The values at a path such as `.findings[].code`."""
    found = [value]
    for step in re.findall(r"\[\]|[^.\[]+", path):
        found = (
            [each for one in found for each in one]
            if step == "[]"
            else [one[step] for one in found]
        )
    return found


def shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def carry_out(command: str, patch: pytest.MonkeyPatch) -> str:
    """Run a command; what it prints, and its status, as a session has them."""
    command, _, query = command.partition(" | jq ")
    command, _, given = command.partition(" < ")
    words = shlex.split(command)
    while "=" in words[0]:
        patch.setenv(*words.pop(0).split("=", 1))
    if words[0] != "hsdns":
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=False
        )
        status, out, err = done.returncode, done.stdout, done.stderr
    else:
        outputs = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
        standard_input.cache_clear()
        with open(given or "/dev/null") as file:
            patch.setattr(sys, "stdin", file)
            with redirect_stdout(outputs[0]), redirect_stderr(outputs[1]):
                status = main(words[1:])
        for each in outputs:
            each.seek(0)
        out, err = (each.read() for each in outputs)
    if query:
        out = "".join(
            f"{shown(value)}\n"
            for path in query.split(",")
            for value in values(json.loads(out), path.strip())
        )
    errors = "".join(f"! {line}\n" for line in err.splitlines())
    return f"{out}{errors}{f'[{status}]' if status else ''}".strip("\n")


@pytest.mark.sockets
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_session(session: Session, no_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "WAIT", 0.0)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name, value in {
        "HOME": no_server,
        "PATH": f"{no_server}/bin:/usr/bin:/bin",
        "COLUMNS": 80,
    }.items():
        monkeypatch.setenv(name, str(value))
    with ExitStack() as stack:
        for language, title, body in session.blocks:
            path = Path(title)
            if title:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if language == "http":
                stack.enter_context(listening(path, **pages(body)))
            elif title:
                path.write_text(body)
                path.chmod(0o755 if title.startswith("bin/") else 0o644)
            elif language == "console":
                for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                    command, _, expected = part.partition("\n")
                    with monkeypatch.context() as patch:
                        printed = carry_out(command, patch)
                    wanted = as_pattern(expected.strip("\n"))
                    assert wanted.fullmatch(f"{printed}\n" if printed else ""), (
                        f"$ {command}\n{printed}"
                    )
