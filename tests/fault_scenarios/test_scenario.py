"""Files of fault scenarios, and what is wrong in one."""

from __future__ import annotations

import pytest

from hsdns.fault_scenarios.scenario import (
    Scenario,
    ScenarioError,
    Seen,
    load,
    read,
)

FILE = """\
version = 1
title = "A title"
story = "What it was."
sources = ["https://example.org/1"]
seconds = 30
seen = [{ client = "glibc", seconds = 5.0, failed = 0, queries = 4 }]

[[asked]]
name = "web"
namespace = "shop"
meant = "web.shop.svc.cluster.local."

[[steps]]
at = 9
remove = ["race"]

[[steps]]
at = 0
add = ["drop name web.shop.svc.cluster.local named race"]
"""


def of(text: str) -> Scenario:
    return read("own", text.encode(), "own")


def test_a_file_has_its_steps_in_order() -> None:
    found = of(FILE)
    assert [(step.at, step.add, step.remove) for step in found.steps] == [
        (0.0, ("drop name web.shop.svc.cluster.local named race",), ()),
        (9.0, (), ("race",)),
    ]
    assert (found.name, found.rules, found.why_not_behind) == ("own", ("race",), "")
    assert found.seen == (Seen("glibc", 5.0, 0, 4),)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("version = 1", "version = 2", "own: the scenario has version 2, and this hsdns plays version 1"),
        ("version = 1\n", "", "own: the scenario has no version, and this hsdns plays version 1"),
        ("version = 1", "version", "own: it is not TOML: "),
        ("seconds = 30", "secconds = 30", 'own: "secconds" is no key of a scenario; did you mean "seconds"?'),
        ("at = 9", "att = 9", 'own: "att" is no key of a scenario; did you mean "at"? in steps[0]'),
        ("queries = 4", "querys = 4", 'own: "querys" is no key of a scenario; did you mean "queries"? in seen[0]'),
        ("seconds = 30", 'seconds = "30"', "own: expected `float`, got `str` in seconds"),
        ('title = "A title"\n', "", "own: object missing required field `title`"),
        ("seconds = 30", 'seconds = 30\nname = "x"', "own: its name is that of the file, in lower case with dashes"),
        ("drop name", "dorp name", 'own: the rule "dorp name web.shop.svc.cluster.local named race": "dorp" is no action of a fault; did you mean "drop"?'),
        (" named race", "", 'own: the rule "drop name web.shop.svc.cluster.local": it needs a name; end it with "named NAME"'),
        ('["race"]', '["rase"]', 'own: the step at 9 removes "rase", which does not stand; did you mean "race"?'),
        ("at = 9", "at = 31", "own: a step at 31 is not within its 30 seconds"),
        ('remove = ["race"]', 'delete = ["web"]', 'own: "web" is no object; write it as "Service shop/web"'),
        ('"glibc"', '"gilbc"', 'own: there is no model of a resolver "gilbc"; did you mean "glibc"?'),
        ('remove = ["race"]', 'add = ["drop named race"]', 'own: two rules are named "race"'),
        ('[[asked]]\nname = "web"\nnamespace = "shop"\nmeant = "web.shop.svc.cluster.local."\n', "asked = []\n", "own: nothing is asked; add [[asked]] with a name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(old: str, new: str, error: str) -> None:
    assert old in FILE
    with pytest.raises(ScenarioError) as raised:
        of(FILE.replace(old, new))
    assert str(raised.value).startswith(error)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("contrack-race", 'there is no fault scenario "contrack-race"; did you mean "conntrack-race"?'),
        ("x", 'there is no fault scenario "x"; hsdns fault scenarios lists them'),
        ("nowhere.toml", "nowhere.toml cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there(name: str, error: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        load(name)
    assert str(raised.value) == error


def test_about_another_name() -> None:
    found = of(FILE.replace("named race", "or name api.web.shop.svc.cluster.local named race"))
    other = found.about("db.test.")
    assert other.steps[0].add == (
        "drop name db.test. or name api.web.shop.svc.cluster.local named race",
    )
    assert [(each.name, each.meant) for each in other.asked] == [("db.test.", "db.test.")]
