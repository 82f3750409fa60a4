from __future__ import annotations

import logging

import pytest

from hsdns.plugins.ready import Ready
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

TEXT = "text/plain; charset=utf-8"
OK = (200, TEXT, b"OK")


def waits(names: str) -> tuple[int, str, bytes]:
    return 503, TEXT, names.encode()


@pytest.mark.parametrize(
    ("text", "unready", "answers"),
    [
        pytest.param("ready", [[]], [OK], id="all-ready"),
        pytest.param("ready", [["kubernetes"], []], [waits("kubernetes"), OK], id="one"),
        pytest.param(
            "ready",
            [["nomad", "erratic", "kubernetes"], ["kubernetes"]],
            [waits("erratic,kubernetes,nomad"), waits("kubernetes")],
            id="sorted",
        ),
        pytest.param(
            "ready",
            [["kubernetes"], [], ["kubernetes"]],
            [waits("kubernetes"), OK, OK],
            id="until-ready",
        ),
        pytest.param(
            "ready", [["a"], ["b"], ["a", "b"]], [waits("a"), OK, OK], id="ready-once-is-ready"
        ),
        pytest.param(
            "ready {\n monitor continuously\n}",
            [["kubernetes"], [], ["kubernetes"]],
            [waits("kubernetes"), OK, waits("kubernetes")],
            id="continuously",
        ),
    ],
)
def test_answer(text: str, unready: list[list[str]], answers: list[tuple[int, str, bytes]]) -> None:
    runtime = FakeRuntime()
    finish(set_up(Ready, text).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    for names, expected in zip(unready, answers, strict=True):
        runtime.unready = names
        assert page("/ready") == expected


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
