from pathlib import Path

import pytest

from loadtest.answering import programs
from loadtest.answering.programs import COREDNS, ECHO, PEERS, TITLES, find_programs


@pytest.fixture
def no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(programs, "_SEARCH", str(tmp_path))
    monkeypatch.delenv("HSDNS_PEER", raising=False)
    return tmp_path


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\necho Version 1.2\n")
    path.chmod(0o755)
    return str(path)


def test_what_is_missing_is_named(no_path: Path) -> None:
    found = find_programs([ECHO, *PEERS], ["hsdns"])
    assert found.programs == []
    assert found.dnsperf is None
    assert [sentence.partition(":")[0] for sentence in found.missing[:-1]] == [
        TITLES[ECHO],
        *(title for title, _, _ in PEERS.values()),
    ]
    assert "dnsperf is not installed" in found.missing[-1]


def test_what_is_there_says_its_version(no_path: Path) -> None:
    path = program(no_path, "knotd")
    (knot,) = find_programs(list(PEERS), ["hsdns"]).programs
    assert (knot.title, knot.words, knot.version) == ("Knot DNS", (path,), "Version 1.2")


def test_the_peer_by_its_variable(no_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSDNS_PEER", program(no_path, "other"))
    assert [each.version for each in find_programs([COREDNS], ["hsdns"]).programs] == [
        "Version 1.2"
    ]
    monkeypatch.setenv("HSDNS_PEER", "/nowhere")
    assert (
        find_programs([COREDNS], ["hsdns"]).missing[0]
        == "CoreDNS: HSDNS_PEER is /nowhere, which is no program"
    )


def test_nothing_is_installed_where_this_may_not(
    no_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said: list[str] = []
    programs.install(said.append)
    assert said == ["not installed, and this may not install it: dnsperf knot"]
