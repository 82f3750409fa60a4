from __future__ import annotations

import json
import os
import sysconfig

import pytest

import hsdns
from hsdns.plugins.python.module import OwnCode

LIBRARY = sysconfig.get_path("stdlib")


@pytest.mark.parametrize(
    ("module", "file", "expected"),
    [
        pytest.param("mine", "/etc/coredns/mine.py", True, id="beside-the-corefile"),
        pytest.param("mine", "/etc/coredns/other.py", True, id="what-it-imports"),
        pytest.param("mine", "/etc/coredns/.venv/lib/python3/site-packages/lib/a.py", False, id="installed"),
        pytest.param("mine.a", "/usr/lib/python3/dist-packages/mine/b.py", True, id="installed-with-the-handler"),
        pytest.param("mine", "/usr/lib/python3/site-packages/mine.py", True, id="an-installed-file"),
        pytest.param("mine", "/usr/lib/python3/site-packages/mines/a.py", False, id="another-name"),
        pytest.param("mine", os.path.abspath(hsdns.__file__), False, id="this-server"),
        pytest.param("mine", f"{LIBRARY}/json/decoder.py", False, id="python"),
        pytest.param("mine", "<frozen importlib._bootstrap>", False, id="no-file"),
    ],
)  # fmt: skip
def test_which_files_are_own(module: str, file: str, expected: bool) -> None:
    assert OwnCode(module).contains(file) is expected


def test_the_innermost_own_line() -> None:
    own = OwnCode("tests")
    try:
        json.loads("{")
    except ValueError as error:
        trace = error.__traceback__
        assert trace is not None
        place = f"{__file__}:{trace.tb_lineno}"
        text = "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        assert own.describe(error, "elsewhere:1") == f"{text} ({place})"
        assert own.place(trace) == place


def test_an_exception_without_an_own_line() -> None:
    own = OwnCode("tests")
    assert own.describe(ValueError("no")) == "ValueError: no"
    assert own.describe(ValueError("no"), "mine.py:3") == "ValueError: no (mine.py:3)"
    assert own.describe(ValueError()) == "ValueError"
    noted = ValueError("no")
    noted.add_note("a note")
    assert own.describe(noted) == "ValueError: no"
