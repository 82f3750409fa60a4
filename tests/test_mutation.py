"""Which small bugs are planted, and which tests are run against them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.mutation import mutants_of, near, reaching

PATH = Path("hsdns/cluster/lookup.py")


@pytest.mark.parametrize(
    ("statement", "planted"),
    [
        ("return a < 2", ["a <= 2", "3", "1", "return None"]),
        ("x = a and not b", ["a or not b", "not b", "a", "b"]),
        ("self.x = {1: a, 2: b}", ["pass", "{2: b, 1: a}", "2", "0", "3", "1"]),
        ("f(a, b)", ["pass", "f(b, a)"]),
        ("x = min(sorted(a, key=b))", ["max(sorted(a, key=b))", "list(a)"]),
        ("x = 'a' if b else c", ["'a'", "c", "''"]),
        ("raise x", ["pass"]),
        ("'a docstring'", []),
        ("x: int = f'{a}{1}'", []),
        ("from a import b", []),
    ],
)
def test_small_bugs(statement: str, planted: list[str]) -> None:
    text = f"def f(self):\n    {statement}\n"
    tree = ast.parse(text)
    found = list(mutants_of(PATH, tree))
    assert sorted(ast.unparse(each.after) for each in found) == sorted(planted)
    assert {each.statement for each in found} <= {2}
    for each in found:
        each.put(each.after)
        assert ast.unparse(tree) != ast.unparse(ast.parse(text))
        each.put(each.before)
    assert ast.unparse(tree) == ast.unparse(ast.parse(text))


@pytest.mark.parametrize(
    ("line", "seconds", "found"),
    [
        (2, 9.0, ["quick", "slow"]),
        (2, 0.2, ["quick", "slow"]),
        (2, 0.05, ["quick"]),
        (3, 9.0, ["slow"]),
        (4, 9.0, []),
        (0, 9.0, ["quick", "slow"]),
    ],
)
def test_the_fastest_tests_that_reach_it_are_run_first(
    line: int, seconds: float, found: list[str]
) -> None:
    name, tree = "hsdns.cluster.lookup", ast.parse("x = 1")
    mutant = next(mutants_of(PATH, tree))._replace(statement=line)
    reached = {
        "slow": (1.0, [(name, 2), (name, 3)]),
        "quick": (0.1, [(name, 2)]),
        "elsewhere": (0.0, [("hsdns.cluster.store", 4)]),
    }
    assert reaching(mutant, reached, seconds) == found


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("hsdns/cluster/lookup.py", "tests/cluster"),
        ("hsdns/rules/checks/services.py", "tests/rules"),
    ],
)
def test_the_tests_near_a_module_are_those_of_its_folder(path: str, tests: str) -> None:
    assert near(Path(path)) == tests
