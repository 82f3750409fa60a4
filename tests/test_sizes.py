"""How big the tree may be: code lines a package, lines a file, files a folder, parameters a function.

What is larger today stands in a table, with its number. A number falls with the change that makes it smaller; it rises
only with a note in docs/decisions that says why.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAX_LINES = 700  # a file that is one noun
MAX_FILES = 15  # a folder, without its __init__.py
MAX_PARAMETERS = 8  # a function, without self
SLACK = 50  # code lines that a number of the table may be behind

# One folder has a file for each plugin, the other one for each subject of rules.
UNBOUNDED = {"hsdns/plugins", "hsdns/rules/checks"}

# Lines with code; a line that is blank, a comment or a part of a docstring is none.
CODE_LINES = {
    "hsdns": 1_834,
    "hsdns/answer_table": 839,
    "hsdns/apiserver": 2_562,
    "hsdns/ask": 627,
    "hsdns/audit": 1_014,
    "hsdns/authority": 959,
    "hsdns/causes": 1_221,
    "hsdns/cli": 3_098,
    "hsdns/cluster": 4_915,
    "hsdns/corefile": 1_359,
    "hsdns/doctor": 1_400,
    "hsdns/explanation": 4_036,
    "hsdns/expression": 1_421,
    "hsdns/fastpath": 1_935,
    "hsdns/fault_scenarios": 1_215,
    "hsdns/faults": 1_767,
    "hsdns/gotemplate": 915,
    "hsdns/lint": 540,
    "hsdns/load": 9_790,
    "hsdns/plugins": 8_088,
    "hsdns/recording": 1_090,
    "hsdns/resolver": 2_753,
    "hsdns/rewriting": 389,
    "hsdns/rules": 4_751,
    "hsdns/server": 6_903,
    "hsdns/sources": 3_454,
    "hsdns/testing": 2_091,
    "hsdns/upstream": 1_520,
    "hsdns/wire": 1_716,
    "loadtest": 7_978,
    "tests": 59_416,
}

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def package_of(path: Path) -> str:
    """The package of a module of hsdns/; of other folders the folder."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] == "hsdns" and len(parts) > 2 else parts[0]


def code_lines(text: str) -> int:
    """The lines that are not blank, not a comment, and not a part of a docstring."""
    documented: set[int] = set()
    nodes: list[ast.AST] = [ast.parse(text)]
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None:
                documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        # No expression has a docstring in it, and most nodes are in expressions.
        nodes += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and at not in documented for at, line in lines)


def parameters_of(text: str) -> dict[str, int]:
    """The number of parameters of each function with too many."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DEFINITIONS):
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = sum(each.arg not in ("self", "cls") for each in given)
            if count > MAX_PARAMETERS:
                found[node.name] = max(count, found.get(node.name, 0))
    return found


MODULES = [path for top in ("hsdns", "loadtest", "tests") for path in (ROOT / top).rglob("*.py")]
PACKAGE = [path for path in MODULES if path.is_relative_to(ROOT / "hsdns")]


def test_code_lines() -> None:
    found: Counter[str] = Counter()
    for path in MODULES:
        found[package_of(path)] += code_lines(path.read_text())
    assert set(found) == set(CODE_LINES)
    grown = {name: count for name, count in found.items() if count > CODE_LINES[name]}
    assert not grown, f"more code lines than CODE_LINES allows: {grown}"
    fallen = {name: count for name, count in found.items() if count < CODE_LINES[name] - SLACK}
    assert not fallen, f"write these into CODE_LINES, so that they stay: {fallen}"


def test_lines_of_a_file() -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in PACKAGE}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_files_of_a_folder() -> None:
    found = Counter(
        path.parent.relative_to(ROOT).as_posix() for path in PACKAGE if path.stem != "__init__"
    )
    large = {name: count for name, count in found.items() if count > MAX_FILES}
    assert {name: count for name, count in large.items() if name not in UNBOUNDED} == {}


def test_parameters_of_a_function() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {name}": count
        for path in PACKAGE
        for name, count in parameters_of(path.read_text()).items()
    }
    assert found == {}
