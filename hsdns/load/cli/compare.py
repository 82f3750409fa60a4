"""`hsdns load compare`: compares the reports of several runs.

Path: load.py -> here -> output/words.py, output/page.py.
Rule 1: a report is one written by `hsdns load -json`; all its servers are compared.
Rule 2: exit status 0, or 2 for bad input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hsdns.cli.flags import Flag, FlagError, leading_words, parse_flags, usage
from hsdns.cli.output import complain, say, say_text
from hsdns.load.errors import LoadError, sentence_of

if TYPE_CHECKING:
    from hsdns.load.report import Report

USAGE: Final = "Usage: hsdns load compare FILE FILE... [FLAG...]\n"
FLAGS: Final = {
    "html": Flag(str, "write the comparison as a page to a file", "FILE"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns load compare`; return the exit status."""
    from hsdns.load.output.page import comparison_page
    from hsdns.load.output.text import compared_lines
    from hsdns.load.output.words import shown_together

    try:
        files, rest = leading_words(words)
        flags = parse_flags(rest, FLAGS, command="hsdns load compare")
        if flags.get("h"):
            say_text(f"{USAGE}\nFlags:\n{usage(FLAGS)}")
            return 0
        servers = shown_together(_read(files))
        if len(servers) < 2:
            raise FlagError(
                "there is nothing to compare: name the reports of two runs or more, that -json FILE wrote"
            )
        say(*compared_lines(servers))
        if "html" in flags:
            page = comparison_page(servers)
            Path(str(flags["html"])).write_text(page, encoding="utf-8")
    except (FlagError, LoadError, OSError) as error:
        complain(sentence_of(error))
        return 2
    return 0


def _read(files: list[str]) -> list[tuple[str, Report]]:
    """Reports with the names of their files, without folders if these names differ."""
    from hsdns.load.report import read_report

    stems = [Path(each).stem for each in files]
    names = stems if len(set(stems)) == len(stems) else files
    if len(set(names)) < len(names):
        raise FlagError("a report is given twice; name each file once")
    return [
        (name, read_report(Path(file).read_bytes(), file))
        for name, file in zip(names, files, strict=True)
    ]
