"""The choice between the twins."""

import os
import subprocess
import sys

import pytest

from tests.fastpath.twins import HAS_NATIVE

SAY = "from hsdns import fastpath; print(fastpath.IMPLEMENTATION, fastpath.AnswerTable.__module__)"


def said(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "HSDNS_NO_EXTENSIONS"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | {"PYTHONPATH": ":".join(sys.path)} | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_python_is_chosen_by_the_environment() -> None:
    assert said(SAY, HSDNS_NO_EXTENSIONS="1") == "python hsdns.fastpath.table"


def test_python_is_chosen_where_the_compiled_one_cannot_be_imported() -> None:
    block = "import sys; sys.modules['hsdns.fastpath._native'] = None; "
    assert said(block + SAY) == "python hsdns.fastpath.table"


@pytest.mark.skipif(not HAS_NATIVE, reason="the compiled twin is not built, so it is not chosen")
def test_the_compiled_one_is_chosen_otherwise() -> None:
    assert said(SAY).startswith("rust hsdns.fastpath._native")
