"""Records the traces of programs: `make traces PROGRAMS="node-resolve curl"`, or `python -m loadtest.traces`.

Path: here -> scene.py, in processes -> tests/resolver/traces/PROGRAM.txt -> table.py -> docs/.
Rule 1: what a program is made of is installed by hand, into the folder BUILT; `--list` tells how, and what is missing.
Rule 2: scenarios of a program run side by side: they mostly wait.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import shutil
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from loadtest.process import BenchmarkError, run_benchmark
from loadtest.programs import ROOT
from loadtest.traces.scene import Row, placed, play, programs, scenarios
from loadtest.traces.table import filled

FOLDER: Final = ROOT / "tests" / "resolver" / "traces"
PAGES: Final = (ROOT / "docs/resolve.md", ROOT / "docs/contributing/programs.md")
BUILT: Final = "/tmp/programs"
_TIMEOUT: Final = 60.0  # seconds for a version


def version(row: Row, built: str) -> str | None:
    """The version in one line; None without the program."""
    words = shlex.split(placed(row.version, built))
    if shutil.which(words[0]) is None:
        return None
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=_TIMEOUT, stdin=subprocess.DEVNULL
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def head(row: Row, version_text: str) -> str:
    """The first lines of a file of traces."""
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    libc = " ".join(platform.libc_ver())
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"# {row.name}: {version_text}; {system}, {libc}, {today}\n"
        f"# python -m loadtest.traces {row.name}: {row.command}\n"
    )


def recorded(path: Path) -> dict[str, str]:
    """The traces of a file, by scenario."""
    parts = path.read_text().split("\n== ")[1:] if path.exists() else []
    return {part.split()[0]: f"== {part.strip()}" for part in parts}


def record(row: Row, names: list[str], asked: argparse.Namespace) -> int:
    """Record scenarios of a program into its file; return how many; raise BenchmarkError."""
    found = version(row, asked.built)
    if found is None:
        raise BenchmarkError(f"{row.name} is not here; it needs: {placed(row.needs, asked.built)}")
    path = Path(asked.out) / f"{row.name}.txt"
    traces = recorded(path)

    with get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        playing = [pool.apply_async(play, (row, scenarios()[name], asked.built)) for name in names]
        for name, played in zip(names, playing, strict=True):
            traces[name] = played.get()
            if "RESULT" not in traces[name]:
                raise BenchmarkError(f"{row.name} said nothing in the scenario {name}")
        pool.close()
        pool.join()
    order = [name for name in scenarios() if name in traces]
    path.parent.mkdir(exist_ok=True)
    path.write_text(head(row, found) + "".join(f"{traces[name]}\n" for name in order))
    return len(names)


def listed(built: str) -> int:
    """Print the programs."""
    for row in programs().values():
        found = version(row, built)
        print(f"{row.name:16} {found or 'missing: ' + placed(row.needs, built)}")
    return 0


def main() -> int:
    """Read the command line, and record."""
    rows = programs()
    parser = argparse.ArgumentParser(prog="python -m loadtest.traces", description=__doc__)
    parser.add_argument("program", nargs="*", choices=[*rows, []], help="of programs.txt")
    parser.add_argument("--only", help="scenarios of scenarios.txt, with commas between them")
    parser.add_argument("--built", default=BUILT, help="the folder of what is installed for it")
    parser.add_argument("--out", default=str(FOLDER), help="the folder of the traces")
    parser.add_argument("--jobs", type=int, default=8, help="scenarios side by side")
    parser.add_argument("--list", action="store_true", help="list the programs with their versions")
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the tables of docs/resolve.md and docs/contributing/programs.md",
    )
    asked = parser.parse_args()
    if asked.page:
        for page in PAGES:
            page.write_text(filled(page.read_text(), Path(asked.out)))
        return 0
    if asked.list or not asked.program:
        return listed(asked.built)
    wanted = asked.only.split(",") if asked.only else list(scenarios())
    for name in asked.program:
        row = rows[name]
        names = [each for each in wanted if scenarios()[each].kind in row.kinds]
        print(f"{name}: {record(row, names, asked)} traces")
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark("traces", main))
