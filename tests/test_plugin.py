"""Plugins and what they inherit at a reload."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugin import Plugin, Readiness, inherit_plugins
from tests.support.plugins.setup import directives, make_block


def test_a_plugin_takes_neither_arguments_nor_properties_by_itself() -> None:
    class Bare(Plugin):
        name = "bare"

    assert isinstance(Bare.setup(directives("debug"), make_block()), Bare)
    with pytest.raises(CorefileError, match='"debug" takes no argument, found "x"'):
        Bare.setup(directives("debug x"), make_block())
    with pytest.raises(CorefileError, match='"debug" has no properties, found "y"'):
        Bare.setup(directives("debug {\n y\n}"), make_block())


class Plain(Plugin):
    """Inherits nothing."""

    name = "a"


class Heir(Plugin):
    """Inherits from what it is told to."""

    def __init__(self, name: str, wants: Plugin | None = None) -> None:
        self.name = name  # type: ignore[misc]  # each stands for a plugin of its own
        self.wants = wants
        self.asked: list[Plugin] = []

    def inherit(self, old: Plugin) -> bool:
        self.asked.append(old)
        return old is self.wants


def test_plugins_are_offered_those_of_their_name_until_they_take_one() -> None:
    old = [Heir("a"), Heir("b"), Heir("a"), Heir("a")]
    takes, takes_none, other = Heir("a", old[2]), Heir("a"), Heir("c")
    inherit_plugins(old, [takes, Plain(), takes_none, other])
    assert takes.asked == [old[0], old[2]]
    assert takes_none.asked == [old[0], old[2], old[3]]
    assert other.asked == []


class Reporting(Plugin):
    def __init__(
        self, name: str, ready: bool = True, remark: str = "", strict: bool = False
    ) -> None:
        self.name = name  # type: ignore[misc]  # each stands for a plugin of its own
        self.may_relapse = strict
        self._ready, self._remark = ready, remark

    def ready(self) -> bool:
        return self._ready

    def remark(self) -> str:
        return self._remark


class Silent(Plugin):
    """A plugin with nothing to report."""

    name = "silent"


@pytest.mark.parametrize(
    ("plugins", "readiness"),
    [
        pytest.param([], ([], [], []), id="none"),
        pytest.param([Silent()], ([], [], []), id="reports-nothing"),
        pytest.param([Reporting("b", False), Reporting("a", False), Reporting("c")], (["a", "b"], [], []), id="sorted"),
        pytest.param([Reporting("a", False), Reporting("a"), Reporting("a", False)], (["a"], [], []), id="once"),
        pytest.param([Reporting("a", False, strict=True), Reporting("b", strict=True)], (["a"], ["a"], []), id="relapsed"),
        pytest.param(
            [Reporting("b", remark="old"), Reporting("a", remark="new"), Reporting("b", remark="old")],
            ([], [], ["a: new", "b: old"]),
            id="remarks",
        ),
    ],
)  # fmt: skip
def test_readiness(
    plugins: list[Plugin], readiness: tuple[list[str], list[str], list[str]]
) -> None:
    assert Readiness.of(plugins) == readiness
