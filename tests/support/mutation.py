"""Mutation: plants one small bug after the other in a module, and names those that no test near it finds.

`make mutants MODULES="hsdns/cluster/lookup.py hsdns/wire"` runs it; TESTS names other tests than those of the same folder.
Rule 1: the checkout is never written.  A process of its own compiles each mutant when it imports the module, and runs
        only the tests that reach the mutated statement, the fastest first, until one fails.
Rule 2: the same arguments choose the same mutants, examples and order.  A mutant that runs too long has died.
Rule 3: a survivor is read: it becomes a row of a test, or is equal to what it replaces.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any, NamedTuple

import pytest

QUIET = ["-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "--timeout=60", "--no-header"]  # fmt: skip
SWAPPED: dict[type[ast.AST], type[Any]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
OTHER = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
Reached = dict[str, tuple[float, list[tuple[str, int]]]]  # by test: seconds, and statements


class Mutant(NamedTuple):
    """A node of a module's tree at `parent.field[place]`, and what replaces it; `statement` is its line, 0 outside functions."""

    path: Path
    statement: int
    parent: Any
    field: str
    place: int | None
    before: ast.AST
    after: ast.AST

    def __str__(self) -> str:
        texts = [" ".join(ast.unparse(each).split())[:160] for each in (self.before, self.after)]
        return f"{self.path}:{getattr(self.before, 'lineno', self.statement)}: {texts[0]} -> {texts[1]}"

    def put(self, node: ast.AST) -> None:
        """Put a node into its place."""
        if self.place is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.place] = node


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """The small bugs in place of a node."""
    match node:
        case ast.Compare(left, [op], rest) if type(op) in SWAPPED:
            yield ast.Compare(left, [SWAPPED[type(op)]()], rest)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(SWAPPED[type(op)](), values)
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.BinOp(left, op, right) if type(op) in SWAPPED:
            yield ast.BinOp(left, SWAPPED[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in SWAPPED:
            yield ast.AugAssign(target, SWAPPED[type(op)](), value)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(str() | bytes() as value) if value:
            yield ast.Constant(value[:0])
        case ast.Dict(keys, values) if len(keys) > 1 and None not in keys:
            yield ast.Dict(keys[::-1], values[::-1])
        case ast.Call(ast.Name(name), args, keywords) if name in OTHER:
            yield ast.Call(ast.Name(OTHER[name], ast.Load()), args, [] if name == "sorted" else keywords)  # fmt: skip
        case ast.Call(func, [first, second, *more], keywords) if not isinstance(first, ast.Starred):
            yield ast.Call(func, [second, first, *more], keywords)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.If(_, body, orelse):
            yield from (ast.If(ast.Constant(value), body, orelse) for value in (True, False))
        case ast.Return(ast.AST() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call() | ast.Await()) | ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Break() | ast.Continue():
            yield SWAPPED[type(node)]()


def mutants_of(path: Path, tree: ast.Module) -> Iterator[Mutant]:
    """All mutants of a module; annotations, docstrings, formatted strings and imports have none."""

    def walk(node: ast.AST, statement: int, inside: bool) -> Iterator[Mutant]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            for index, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom):
                    continue
                if isinstance(child, ast.JoinedStr) or (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):  # fmt: skip
                    continue
                if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                    continue
                line = child.lineno if inside and isinstance(child, ast.stmt) else statement
                place = index if isinstance(value, list) else None
                for after in replacements(child):
                    yield Mutant(path, line, node, field, place, child, after)
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, line, inside or is_function)

    return walk(tree, 0, False)


def with_probes(tree: ast.Module, name: str) -> ast.Module:
    """The module, of which each statement within a function tells that it is reached."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for field in ("body", "orelse", "finalbody"):
                    body = getattr(node, field, None)
                    if isinstance(body, list) and not hasattr(node, f"_probed_{field}"):
                        setattr(node, f"_probed_{field}", True)
                        probes = (ast.parse(f"__reached__(({name!r}, {each.lineno}))").body[0] for each in body)  # fmt: skip
                        setattr(node, field, [part for pair in zip(probes, body, strict=True) for part in pair])  # fmt: skip
    return tree


class Importer:
    """A plugin of pytest that imports some modules from their trees, and notes what tests reach."""

    def __init__(self, trees: dict[str, tuple[Path, ast.Module]], chosen: Sequence[str]) -> None:
        self.trees, self.chosen = trees, chosen
        self.statements: set[tuple[str, int]] = set()
        self.reached: Reached = {}
        builtins.__reached__ = self.statements.add  # type: ignore[attr-defined]  # what the probes call

    def pytest_load_initial_conftests(self) -> None:
        """Be asked before PathFinder and its like, that of hsdns.pytest_plugin included."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of a module whose tree this has."""
        if name not in self.trees:
            return None
        file, tree = self.trees[name]

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(
                    ast.fix_missing_locations(tree), str(file), "exec", dont_inherit=True
                )

        return spec_from_file_location(name, file, loader=Loader(name, str(file.resolve())))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in their order."""
        if self.chosen:
            order = {name: at for at, name in enumerate(self.chosen)}
            items[:] = [each for each in items if each.nodeid in order]
            items.sort(key=lambda each: order[each.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test that passes has reached."""
        if report.when == "call" and report.passed:
            self.reached[report.nodeid] = (report.duration, sorted(self.statements))
        if report.when == "teardown":
            self.statements.clear()


def module_name(path: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def run(trees: dict[str, tuple[Path, ast.Module]], tests: Sequence[str], chosen: Sequence[str], seconds: float) -> tuple[int | None, Reached]:  # fmt: skip
    """Run tests in a process of its own, with modules from trees: its exit code, None after `seconds`; what was reached."""
    with tempfile.NamedTemporaryFile("r") as file:

        def child() -> None:
            os.setsid()
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            importer = Importer(trees, chosen)
            code = 1
            try:
                code = pytest.main(
                    [*QUIET, *(["-x"] if chosen else []), *tests], plugins=[importer]
                )
            finally:  # pytest itself may raise
                Path(file.name).write_text(json.dumps(importer.reached))
                os._exit(code)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(seconds)
        code = process.exitcode
        assert process.pid is not None, "started"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return code, json.loads(file.read() or "{}")


def near(path: Path) -> str:
    """The folder of tests that is nearest to a file."""
    return next(str(each) for each in [Path("tests", *path.parts[1:-k]) for k in range(1, 9)] if each.is_dir())  # fmt: skip


def reaching(mutant: Mutant, reached: Reached, seconds: float) -> list[str]:
    """The tests that reach a mutant, the fastest first, as many as take so many seconds."""
    name, found = module_name(mutant.path), []
    for test, (took, statements) in sorted(reached.items(), key=lambda item: item[1][0]):
        if any(each[0] == name and mutant.statement in (0, each[1]) for each in statements):
            found.append(test)
            seconds -= took
            if seconds < 0:
                break
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Mutate the modules, and print the survivors and the score of each module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="+", type=Path, help="files or folders of hsdns")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="by default the folder of the module"
    )
    parser.add_argument(
        "--limit", type=int, default=40, help="mutants of a module, chosen at random"
    )
    parser.add_argument("--seed", type=int, default=0, help="of that choice")
    parser.add_argument("--seconds", type=float, default=20, help="of tests for a mutant")
    args = parser.parse_args(argv)
    os.nice(15)
    os.environ["CI"] = "1"  # the same examples of properties each time, and none is stored
    paths = [file for each in args.modules for file in ([each] if each.is_file() else sorted(each.rglob("*.py")))]  # fmt: skip
    trees = {module_name(each): (each, with_probes(ast.parse(each.read_bytes()), module_name(each))) for each in paths}  # fmt: skip
    tests = args.tests or sorted({near(each) for each in paths})
    _, reached = run(trees, tests, (), 3600)
    if not reached:
        sys.exit(f"no test of {' '.join(tests)} passes; run them with pytest to see why")
    for path in paths:
        tree = ast.parse(path.read_bytes())
        mutants = list(mutants_of(path, tree))
        chosen = Random(args.seed).sample(mutants, min(args.limit, len(mutants)))
        survivors = 0
        for mutant in sorted(chosen, key=lambda each: (each.statement, str(each))):
            found = reaching(mutant, reached, args.seconds)
            mutant.put(mutant.after)
            files = list(dict.fromkeys(each.partition("::")[0] for each in found))
            code = run({module_name(path): (path, tree)}, files, found, 3 * args.seconds + 30)[0] if found else 0  # fmt: skip
            mutant.put(mutant.before)
            if code == 0:
                survivors += 1
                print(mutant if found else f"{mutant} (reached by no test)", flush=True)  # noqa: T201 - its output
        print(f"{path}: {len(chosen) - survivors} of {len(chosen)} mutants died", flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main()
