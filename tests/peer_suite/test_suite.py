"""CoreDNS's own integration tests with hsdns as the server, from the checkout that HSDNS_PEER_SOURCE names.

With HSDNS_PEER they are run against that CoreDNS binary too: what it fails as a process, the harness cannot show.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peer_suite.may_fail import BY_MACHINE, OF_A_PROCESS, OF_HSDNS
from tests.peer_suite.suite import (
    BUILD_LIMIT,
    LIMIT,
    VARIABLE,
    Suite,
    build,
    checkout,
    missing,
    names,
    run,
    status,
    use_process,
)
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

MISSING = missing()
HSDNS = Path(sys.executable).with_name("hsdns")


def rows_of_the_checkout(reason: str | None) -> list[Any]:
    """The names, or one that is skipped for a reason."""
    if reason is not None:
        return [pytest.param("all", marks=pytest.mark.skip(reason=reason))]
    return list(names(checkout()))


@contextmanager
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no other worker of pytest do the same: the ports of some tests are fixed."""
    with open(tmp_path_factory.getbasetemp().parent / "peer-suite.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The suite, built once."""
    try:
        with alone(tmp_path_factory):
            return build(checkout(), tmp_path_factory.mktemp("suite"))
    except subprocess.CalledProcessError as error:
        pytest.fail(f"CoreDNS's tests cannot be built:\n{error.stdout}", pytrace=False)


@pytest.fixture
def nobody_else(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with alone(tmp_path_factory):
        yield


def check(suite: Suite, name: str, server: Path, failing: dict[str, str]) -> None:
    found = run(suite, name, server)
    if found.status == "skipped":
        pytest.skip(f"CoreDNS's test skips itself:\n{found.output}")
    if found.status == "passed":
        assert name not in failing, f"{name} passes: take it off may_fail.py"
        return
    reason = {**failing, **BY_MACHINE}.get(name)
    if reason is not None:
        pytest.xfail(reason)
    pytest.fail(f"{name} of {VARIABLE} fails:\n{found.output}", pytrace=False)


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.usefixtures("nobody_else")
@pytest.mark.timeout(BUILD_LIMIT + 3 * LIMIT)
@pytest.mark.parametrize("name", rows_of_the_checkout(MISSING))
def test_of_coredns(name: str, suite: Suite) -> None:
    check(suite, name, HSDNS, {**OF_HSDNS, **OF_A_PROCESS})


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.usefixtures("nobody_else")
@pytest.mark.timeout(BUILD_LIMIT + 3 * LIMIT)
@pytest.mark.parametrize(
    "name",
    rows_of_the_checkout(
        MISSING if os.environ.get("HSDNS_PEER") else "HSDNS_PEER names no CoreDNS binary"
    ),
)
def test_of_coredns_with_coredns(name: str, suite: Suite) -> None:
    check(suite, name, Path(os.environ["HSDNS_PEER"]), OF_A_PROCESS)


def test_no_reason_is_given_twice() -> None:
    everything = [*OF_HSDNS, *BY_MACHINE, *OF_A_PROCESS]
    assert len(everything) == len(set(everything))


# --- the harness ---


@pytest.mark.parametrize(("value", "reason"), values(TABLES, "what is missing is said"))
def test_what_is_missing_is_said(
    value: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert missing() == reason


def test_names_are_those_that_go_test_runs(tmp_path: Path) -> None:
    tests = tmp_path / "test"
    tests.mkdir()
    (tests / "a_test.go").write_text(
        "package test\n\nfunc TestOne(t *testing.T) {\n}\nfunc TestTwo(tt *testing.T) {\n"
    )
    (tests / "b_test.go").write_text(
        "//go:build etcd\n\npackage test\n\nfunc TestEtcd(t *testing.T) {\n"
    )
    (tests / "c_test.go").write_text(
        "package test\n\nfunc BenchmarkX(b *testing.B) {\nfunc Testing(text string) {\n"
    )
    assert list(names(tmp_path)) == ["TestOne", "TestTwo"]


def test_caddy_is_replaced_in_an_import_alone() -> None:
    text = 'import (\n\t"github.com/coredns/caddy"\n\t"github.com/coredns/caddy/x"\n)\n// "github.com/coredns/caddy"\n'
    assert use_process(text) == text.replace(
        '\t"github.com/coredns/caddy"\n',
        '\tcaddy "github.com/coredns/coredns/test/peerprocess"\n',
        1,
    )


@pytest.mark.parametrize(("returncode", "output", "expected"), values(TABLES, "status"))
def test_status(returncode: int, output: str, expected: str) -> None:
    assert status(returncode, "TestA", output) == expected
