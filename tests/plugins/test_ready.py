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


@pytest.mark.parametrize(
    ("text", "relapses"),
    [
        ("ready", False),
        ("ready {\n monitor until-ready\n}", True),
        ("ready {\n monitor continuously\n}", True),
    ],
    ids=["once-is-enough", "may-relapse", "continuously"],
)
def test_a_plugin_that_is_no_longer_ready(text: str, relapses: bool) -> None:
    runtime = FakeRuntime()
    finish(set_up(Ready, text).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    assert page("/ready") == OK
    runtime.unready = ["kubernetes"]
    runtime.relapsed = ["kubernetes"] if relapses else []
    assert page("/ready") == (waits("kubernetes") if relapses else OK)
    runtime.unready, runtime.relapsed = [], []
    assert page("/ready") == OK


@pytest.mark.parametrize(
    ("unready", "remarks", "body"),
    [
        pytest.param([], [], b"OK", id="none"),
        pytest.param([], ["forward: x", "kubernetes: y"], b"OK\nforward: x\nkubernetes: y", id="two"),
        pytest.param(["kubernetes"], ["kubernetes: y"], b"kubernetes", id="not-ready"),
    ],
)  # fmt: skip
def test_remarks_follow_ok(unready: list[str], remarks: list[str], body: bytes) -> None:
    runtime = FakeRuntime()
    runtime.unready, runtime.remarks = unready, remarks
    finish(set_up(Ready, "ready").start(runtime))
    assert runtime.http[":8181"]["/ready"]("/ready")[2] == body


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
