"""What /ready is told by plugins that report, and by those that do not."""

from __future__ import annotations

import pytest

from hsdns.plugin import Plugin, Readiness


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
