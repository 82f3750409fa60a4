"""The tables of docs/contributing/programs.md and docs/resolve.md, from the traces.

Path: `python -m loadtest.traces --page` -> here -> tests/resolver/traces/*.txt, and these pages.
Rule 1: queries are those of all lookups of a scenario, seconds in docs/contributing/programs.md those of the first,
        and in docs/resolve.md those of all.
Rule 2: a row of docs/resolve.md has all models that do the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hsdns.resolver.forwarders import FORWARDERS
from loadtest.summary import replaced
from loadtest.traces.scene import programs, rows_of

WAIT: Final = 0.5  # seconds from which on a table tells them
_RESULT: Final = re.compile(r"RESULT (?:at (-?\d+) )?after (\d+) ms: (.*)")
_FOUND: Final = re.compile(r"\d+[.+]\d|2001:|t\d\.|\d+ (records|values)|\"?text_|0_10_|SRV |TXT ")


def traces_of(path: Path) -> dict[str, list[str]]:
    """The lines of each trace of a file, by scenario."""
    parts = path.read_text().split("\n== ")[1:]
    return {part.split()[0]: part.splitlines()[1:] for part in parts}


def cell(lines: list[str] | None, kind: str) -> str:
    """What a table says of a trace."""
    if lines is None:
        return ""
    if kind == "removed":
        return re.sub(r"RESULT .* for ([\d.]+) s(.*?);.*", r"\1 s\2", lines[0])
    results = [match for match in map(_RESULT.match, lines) if match]
    queries = len(lines) - len(results)
    if kind == "repeated":
        return str(queries)
    counted = results if kind == "met" else results[:1]
    seconds = (int(counted[-1][1] or 0) + int(counted[-1][2])) / 1000
    works = all(_FOUND.match(each[3]) for each in counted)
    wait = f", {seconds:.1f} s" if kind != "names" and seconds >= WAIT else ""
    return f"{queries}{wait}{'' if works else ', fails'}"


def table(kind: str, folder: Path) -> str:
    """One of the tables, as Markdown."""
    columns = [row[1:] for row in rows_of("tables.txt") if row[0] == kind]
    rows = [["program", *(title for title, _ in columns)], ["---"] * (1 + len(columns))]
    for path in sorted(folder.glob("*.txt")):
        traces = traces_of(path)
        cells = [cell(traces.get(scenario), kind) for _, scenario in columns]
        if any(cells):
            rows.append([path.stem, *cells])
    if kind == "met":
        rows[2:] = alike(rows[2:])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def alike(rows: list[list[str]]) -> list[list[str]]:
    """One row for all models with the same cells; that of a model is of the program with its name, or the first."""
    own: dict[str, list[str]] = {}
    for name, *cells in rows:
        model = programs()[name].model
        if name == model or model not in own:
            own[model] = cells
    found: dict[tuple[str, ...], list[str]] = {}
    for model, cells in own.items():
        if all(cells):
            found.setdefault(tuple(cells), []).append(f"`{model}`")
    return [[", ".join(names), *cells] for cells, names in found.items()]


def versions(folder: Path) -> str:
    """The list of what was measured, as Markdown."""
    heads = [path.read_text().partition("\n")[0] for path in sorted(folder.glob("*.txt"))]
    told = [head.removeprefix("# ").rpartition("; Debian")[0].partition(": ") for head in heads]
    models = {name: row.model for name, row in programs().items()}
    rows = "".join(
        f"\n| {name} | {version} | `--{'through' if models[name] in FORWARDERS else 'program'} {models[name]}` |"
        for name, _, version in told
    )
    return f"| program | version | its model |\n| --- | --- | --- |{rows}"


def filled(page: str, folder: Path) -> str:
    """A page with its tables, each between two marks."""
    for kind in (*dict.fromkeys(row[0] for row in rows_of("tables.txt")), "versions"):
        if f"<!-- {kind}: begin -->" in page:
            text = versions(folder) if kind == "versions" else table(kind, folder)
            page = replaced(page, kind, text)
    return page
