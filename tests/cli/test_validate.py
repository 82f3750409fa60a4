"""What `-validate` finds, as JSON; tests/cli/test_coredns.py has the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsdns.cli.launch import CorefileSource
from hsdns.cli.validate import Remark, check, validate
from hsdns.corefile.tree import Position


def as_json(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, Any]:
    """Check a Corefile; return the exit status and what is printed."""
    path = tmp_path / "Corefile"
    if text is not None:
        path.write_text(text)
    status = validate(CorefileSource.from_flag(str(path), ""), 53, as_json=True)
    printed = capsys.readouterr()
    assert printed.err == ""
    return status, json.loads(printed.out.replace(f"{tmp_path}/", ""))


def place(line: int, column: int) -> dict[str, Any]:
    return {"file": "Corefile", "line": line, "column": column}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(". {\nwhoami\n}\na {\n}", {"server_blocks": 2}, id="valid"),
        pytest.param(
            ". {\ncache 30 thirty\nhosts none {\nfallthrough\n}\nwhoami x\ncach\n}",
            {
                "valid": False,
                "server_blocks": 1,
                "errors": [
                    {**place(6, 8), "message": '"whoami" takes no argument, found "x"'},
                    {**place(7, 1), "message": 'unknown directive "cach"; did you mean "cache"?'},
                ],
                "warnings": [
                    {**place(3, 7), "message": "hosts file none does not exist yet; it is read when it does"}
                ],
                "hints": [
                    {
                        **place(2, 10),
                        "message": '"thirty" is taken for a zone; a TTL is a number of seconds without a unit, as in "cache 30"',
                    }
                ],
            },
            id="one-of-each",
        ),
        pytest.param(
            None,
            {
                "valid": False,
                "server_blocks": 0,
                "errors": [{**place(1, 1), "message": "cannot read the Corefile: No such file or directory"}],
            },
            id="no-file",
        ),
        pytest.param("cach 30", {"server_blocks": 1, "warnings": [{**place(1, 6), "message": 'zone "30." does not follow the preferred syntax of RFC 1035'}]}, id="keys"),
    ],
)  # fmt: skip
def test_json(
    text: str | None, found: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing: dict[str, Any] = {"errors": [], "warnings": [], "hints": []}
    status, printed = as_json(text, tmp_path, capsys)
    assert printed == {"corefile": "Corefile", "valid": True, **nothing, **found}
    assert status == (0 if printed["valid"] else 1)


def test_a_warning_stands_once_though_the_setup_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    path.write_text(". {\nhosts none {\nttl x\nreload y\n}\n}")
    found = check(CorefileSource.from_flag(str(path), ""), 53)
    assert len(found.errors) == 2
    assert len(found.warnings) == 1
    assert found.hints == []


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("Corefile:2:11: a: b", Remark(Position("Corefile", 2, 11), "a: b")),
        ("C:\\dns\\Corefile:2:11: no", Remark(Position("C:\\dns\\Corefile", 2, 11), "no")),
        ("Corefile has no server block: choose", Remark(None, "Corefile has no server block: choose")),
    ],
)  # fmt: skip
def test_a_remark_has_the_place_of_its_text(text: str, remark: Remark) -> None:
    assert Remark.from_text(text) == remark
    assert str(remark) == text
    assert remark.as_json()["message"] == remark.message


@pytest.mark.parametrize("text", ["}\n", "a {", "(s) {\n", '. {\n log "\n', ". {\n{$X} {\n}\n}\n"])
def test_any_end_is_reached(text: str, tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    path.write_text(text)
    found = check(CorefileSource.from_flag(str(path), ""), 53)
    assert found.errors or found.warnings
