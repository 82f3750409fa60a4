"""Starts a program on some cores, with a limit of open files, or with a standard output that nobody reads.

    python -m loadtest.pressure.launch CORES DESCRIPTORS OUTPUT WORD...

Path: server.py starts it -> the program takes its place.
CORES: numbers with commas, or `any`.  DESCRIPTORS: SOFT:HARD, or `same`.  OUTPUT: `same`, or `unread` for a pipe whose
other end stays open and is never read.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """Replace this process by the program."""
    cores, descriptors, output, *program = words
    if cores != "any":
        os.sched_setaffinity(0, map(int, cores.split(",")))
    if descriptors != "same":
        soft, hard = map(int, descriptors.split(":"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if output == "unread":
        reader, writer = os.pipe()
        os.set_inheritable(reader, True)
        for number in (1, 2):
            os.dup2(writer, number)
        os.close(writer)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
