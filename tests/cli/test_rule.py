"""`hsdns rule`: the page of a rule, and the list."""

from __future__ import annotations

import json

import pytest

from hsdns import cli
from hsdns.rules.rule import RETIRED, rules


def test_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "hs131"]) == 0
    assert capsys.readouterr().out == rules()["HS131"].text


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rules())
    assert "HS131 error   The target of an ExternalName Service is an IP address" in lines


def test_the_list_has_the_retired(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(RETIRED, "HS900", "A thing is wrong; HS901 finds it")
    assert cli.main(["rule"]) == 0
    assert capsys.readouterr().out.endswith("\nHS900 retired A thing is wrong; HS901 finds it\n")


def test_a_page_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "address-as-external-name", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"what", "why", "see_it_by_hand", "fix", "sources"} <= set(found)
    assert (found["code"], found["level"], found["repaired"]) == ("HS131", "error", False)
    assert found["page"] == "https://hsdns.github.io/hsdns/rules/HS131.html"


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rule", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in found] == list(rules())
    assert all(
        set(each) == {"code", "name", "title", "level", "state", "repaired", "page"}
        for each in found
    )
