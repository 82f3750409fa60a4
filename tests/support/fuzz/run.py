"""Fuzzes the targets for some seconds each: `python -m tests.support.fuzz.run SECONDS [TARGET...]`, or `make fuzz`.

Path: here -> fuzzer.py, targets.py, seeds.py.
A finding is shortened, printed, and written to found/TARGET, where the ordinary suite reads it from then on: it goes into
the tree together with what mends it.  The exit status is then 1.
"""

from __future__ import annotations

import hashlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from random import Random
from typing import TextIO

from tests.support.fuzz.fuzzer import Finding, Fuzzer, Target, shorten
from tests.support.fuzz.seeds import FOUND, seeds
from tests.support.fuzz.targets import TARGETS


def main(words: Sequence[str]) -> int:
    """Fuzz; return the exit status."""
    seconds, names = float(words[0]), words[1:] or [each.name for each in TARGETS]
    unknown = set(names) - {each.name for each in TARGETS}
    if unknown:
        sys.stderr.write(f"fuzz: there is no target {', '.join(sorted(unknown))}\n")
        return 2
    chosen = [each for each in TARGETS if each.name in names]
    findings = [fuzz(each, seconds, Random(), time.monotonic, sys.stdout) for each in chosen]
    return 1 if any(findings) else 0


def fuzz(
    target: Target, seconds: float, random: Random, clock: Callable[[], float], out: TextIO
) -> bool:
    """Fuzz one target until the time is over or something is found, and say which; return whether it was found."""
    fuzzer, end = Fuzzer(target, list(seeds(target.name).values()), random), clock() + seconds
    while clock() < end:
        finding = fuzzer.step()
        if finding is not None:
            save(target, shorten(finding, target), out)
            return True
    out.write(
        f"{target.name}: {fuzzer.executed:,} inputs, {fuzzer.kept:,} of them new, {fuzzer.edges:,} edges\n"
    )
    out.flush()
    return False


def save(target: Target, finding: Finding, out: TextIO) -> None:
    """Print a finding and write it to its folder."""
    digest = hashlib.sha256(finding.octets).hexdigest()[:12]
    path = FOUND / target.name / f"{digest}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(finding.octets)
    out.write(f"{target.name}: {finding.octets!r} raises\n")
    traceback.print_exception(finding.error, limit=-4, file=out)
    out.write(f"{target.name}: the input is in {path}\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
