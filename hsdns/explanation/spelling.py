"""Finds words near to a misspelt one, at a cost that does not grow with the number of words.

Path: nearest.py -> here.
Rule 1: words that differ in one letter are found by generating all such words and looking them up.
Rule 2: of words that differ more, only the first FIRST are considered; at most MOST of them that begin or end alike are
        compared by their sets of letters, and the FEW with the most letters in common are compared exactly, as long as
        they may be nearer than earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from heapq import nlargest
from itertools import islice
from operator import eq, le, lt
from string import ascii_lowercase, digits
from typing import Final

FIRST: Final = 20_000
MOST: Final = 600
FEW: Final = 30
LOOKS: Final = 500  # words that are read between two pauses
PIECE: Final = 100  # words that are compared
CAREFULLY: Final = 2
NEAR: Final = 0.6  # the share of letters that near words have in common, as in difflib
_LETTERS: Final = f"{ascii_lowercase}{digits}-_"


def close_words(word: str, words: Collection[str], most: int) -> Iterator[str | None]:
    """The nearest words, at most this many, and None where others may run; `words` is a set, a dict, or has few."""
    found = list(dict.fromkeys(filter(words.__contains__, _one_letter_away(word))))[:most]
    yield from found
    if len(found) == most:
        return
    back = word[::-1]
    scored: list[tuple[int, str]] = []
    for number, each in enumerate(islice(words, FIRST), 1):
        if number % LOOKS == 0:
            yield None
        if each[:1] != word[:1] and each[-1:] != word[-1:]:
            continue
        agreeing = sum(map(eq, word, each)) + sum(map(eq, back, each[::-1]))
        scored.append((agreeing - len(each), each))
        if len(scored) == MOST:
            break
        if len(scored) % PIECE == 0:
            yield None
    best = [each for _, each in nlargest(FEW, scored) if each != word and each not in found]
    yield None
    yield from _nearest(word, best, most - len(found))


def _nearest(word: str, words: Sequence[str], most: int) -> Iterator[str | None]:
    """The words that have the most letters in common with one, and None where others may run."""
    near: list[tuple[float, int]] = []  # the nearest first, with their position among the words
    matcher = SequenceMatcher(None, "", word)
    for place, each in enumerate(words):
        if place % CAREFULLY == CAREFULLY - 1:
            yield None
        matcher.set_seq1(each)
        bounds = (
            matcher.real_quick_ratio,
            matcher.quick_ratio,
            matcher.ratio,
        )  # each nearer than the previous one
        beats = partial(lt, near[-1][0]) if len(near) == most else partial(le, NEAR)
        if all(beats(bound()) for bound in bounds):
            near = sorted([*near, (matcher.ratio(), place)], key=lambda pair: -pair[0])[:most]
    for _, place in near:
        yield words[place]


def _one_letter_away(word: str) -> Iterator[str]:
    """Words with one letter removed, swapped with the next, replaced, or added."""
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        if tail:
            yield head + tail[1:]
            yield head + tail[1:2] + tail[:1] + tail[2:]
        for letter in _LETTERS:
            if tail and letter != tail[0]:
                yield head + letter + tail[1:]
            yield head + letter + tail
