"""Types of arguments that several benchmarks have on their command lines.

Path: the cli.py of a benchmark gives them to argparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable


def among(known: Iterable[str]) -> Callable[[str], list[str]]:
    """One or more of some words, with commas between them."""
    names = list(known)

    def read(text: str) -> list[str]:
        chosen = [word.strip() for word in text.split(",") if word.strip()]
        unknown = [word for word in chosen if word not in names]
        if unknown or not chosen:
            wrong = f"{unknown[0]} is not known; " if unknown else ""
            raise argparse.ArgumentTypeError(f"{wrong}write one or more of {', '.join(names)}")
        return chosen

    return read
