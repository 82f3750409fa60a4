"""Check that what was tagged can be released, and print the notes of the release.

    python deploy/distribution/release.py TAG OWNER/REPOSITORY

Path: the release workflow -> here -> the text of the release on GitHub.
Rule 1: nothing is published of a tag that is not the version, or from a repository that is not the one of
        pyproject.toml, because the packages link to that one.
Rule 2: the notes are the section of CHANGELOG.md; a change note that is still in changes/ would be missing there.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class CannotRelease(Exception):
    """The tree is not what the tag says; the message says what to do."""


def notes(root: Path, tag: str, repository: str) -> str:
    """The section of CHANGELOG.md for a tag; raise CannotRelease."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = re.search(r'^__version__ = "(.+)"$', (root / "hsdns/__init__.py").read_text(), re.M)
    version = declared[1] if declared else ""
    if tag != f"v{version}":
        raise CannotRelease(f"the tag is {tag}, but hsdns/__init__.py has the version {version}")
    source = project["urls"]["Source"]
    if source != f"https://github.com/{repository}":
        raise CannotRelease(
            f"this is the repository {repository}, but the packages would link to {source}; "
            "set [project.urls] of pyproject.toml"
        )
    waiting = sorted({path.name for path in (root / "changes").glob("*.md")} - {"README.md"})
    if waiting:
        raise CannotRelease(
            f"changes/{waiting[0]} is not in CHANGELOG.md yet; run .venv/bin/towncrier build --yes"
        )
    # Up to the next version; the sections of one version have a # more.
    pattern = rf"^## {re.escape(version)} \([-\d]+\)\n(.+?)(?=^## |\Z)"
    section = re.search(pattern, (root / "CHANGELOG.md").read_text(), re.M | re.S)
    if section is None:
        raise CannotRelease(f"CHANGELOG.md has no section {version}")
    return f"{section[1].strip()}\n"


def main(words: Sequence[str]) -> int:
    """Print the notes, return the exit status."""
    try:
        sys.stdout.write(notes(ROOT, *words))
    except CannotRelease as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
