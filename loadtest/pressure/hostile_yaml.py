"""Hostile manifests of 1 MB, and the CPU time and memory that hsdns needs to read or refuse one.

    python -m loadtest.pressure.hostile_yaml NAME

Path: run.py -> here, in a process for each file -> hsdns/sources/manifest_file.py.
Rule 1: a file counts as answered if it was read or refused; any other outcome ends the process.
Prints one line of JSON: CPU seconds, and the largest resident memory of the process in octets.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.sources.manifest_file import read_manifest_file
from loadtest.programs import ROOT

LEN: Final = 1_000_000  # octets
_TIMEOUT = 20.0  # seconds
_HEAD = "apiVersion: v1\nkind: Service\n"


def _aliases(value: str, more: Callable[[str], str]) -> bytes:
    """A value with anchors, each of which refers to the previous one 9 times, 11 levels deep (CVE-2019-11253)."""
    levels = "".join(
        f"b{level}: &a{level} {more(','.join([f'*a{level - 1}'] * 9))}\n" for level in range(1, 12)
    )
    return f"{_HEAD}a: &a0 {value}\n{levels}metadata: {{name: a, labels: *a11}}\n".encode()


def _lists_of_aliases() -> bytes:
    """Documents of 1 KB, each of which stands for 10,000 objects."""
    item = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"
    for anchor in ("n", "l"):
        item = f"{{apiVersion: v1, kind: List, items: [&{anchor} {item}{f', *{anchor}' * 99}]}}"
    return _filled(f"---\n{item}\n")


def _filled(unit: str, head: str = "") -> bytes:
    return (head + unit * ((LEN - len(head)) // len(unit))).encode()


FILES: Final[dict[str, Callable[[], bytes]]] = {
    "aliases in lists": lambda: _aliases("[x]", "[{}]".format),
    "aliases in merges": lambda: _aliases("{x: 1}", "{{<<: [{}]}}".format),
    "aliases of one large value": lambda: _filled("- *a\n", f"- &a [{'x,' * 20_000}]\n"),
    "aliases in each document": _lists_of_aliases,
    "anchors": lambda: _filled("- &a x\n"),
    "lists in lists": lambda: _filled("["),
    "maps in maps": lambda: _filled("{a: "),
    "blocks in blocks": lambda: _filled("- "),
    "keys": lambda: "".join(f"a{number}: 1\n" for number in range(LEN // 10)).encode(),
    "a long number": lambda: _filled("9", "a: "),
    "a number to base 60": lambda: _filled(":1", "a: 1"),
    "documents": lambda: _filled("---\nkind: A\n"),
    "Services": lambda: _filled(
        f"---\n{_HEAD}metadata: {{name: a}}\nspec: {{ports: [{{port: 80}}]}}\n"
    ),
    "escapes": lambda: _filled("\\x41", 'a: "'),
}


class Reading(NamedTuple):
    """The result of reading a file: CPU seconds, octets; `ended` says why it was not read."""

    name: str
    cpu: float = 0.0
    peak: int = 0
    ended: str = ""


def read(name: str) -> Reading:
    """Read one of the files in a process of its own."""
    words = (sys.executable, "-m", "loadtest.pressure.hostile_yaml", name)
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=_TIMEOUT, check=True, cwd=ROOT, text=True
        )
    except subprocess.TimeoutExpired:
        return Reading(name, ended=f"{name}: not read after {_TIMEOUT:.0f} s")
    except subprocess.CalledProcessError as error:
        return Reading(name, ended=f"{name}: {error.stderr[-100:]}")
    found = json.loads(done.stdout)
    return Reading(name, found["cpu"], found["peak"])


def main(name: str) -> None:
    """Read a file, and print the cost."""
    content = FILES[name]()
    began = time.process_time()
    read_manifest_file(content, f"{name}.yaml")
    cpu = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu": cpu, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1])
