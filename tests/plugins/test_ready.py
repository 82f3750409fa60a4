from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hsdns.plugins.ready import Ready
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")
TEXT = "text/plain; charset=utf-8"
OK = (200, TEXT, b"OK")


def waits(names: str) -> tuple[int, str, bytes]:
    return 503, TEXT, names.encode()


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "ready"))
def test_answer(given: str, expected: str) -> None:
    """Each time the plugins that are not ready; `-` are none."""
    text, _, unready = given.partition(": ")
    runtime = FakeRuntime()
    finish(set_up(Ready, text.replace("\\n", "\n")).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    for names, answer in zip(unready.split("; "), expected.split("; "), strict=True):
        runtime.unready = [] if names == "-" else names.split()
        status, body = answer.split(" ", 1)
        assert page("/ready") == (int(status), TEXT, body.encode())


@pytest.mark.parametrize("text", ["ready", "ready {\n monitor continuously\n}"])
def test_stopping_is_not_ready(text: str) -> None:
    runtime = FakeRuntime()
    finish(set_up(Ready, text).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    assert page("/ready") == OK
    runtime.stopping = True
    assert page("/ready") == waits("Shutting down")


def test_unready_plugins_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hsdns.plugin.ready")
    runtime = FakeRuntime()
    runtime.unready = ["kubernetes"]
    finish(set_up(Ready, "ready").start(runtime))
    runtime.http[":8181"]["/ready"]("/ready")
    assert [record.getMessage() for record in caplog.records] == [
        'plugin/ready: Plugins not ready: "kubernetes"'
    ]
