"""The pods of one namespace by their labels, to find those that are nearest to a selector without looking at all.

Path: checks/selector.py -> here <- objects.py.
Rule 1: what is found is what a look at each pod would find, the first of those that are as near.
Rule 2: pods with the same keys differ in their values only, and the values of a selector lead to those that have one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from hsdns.rules.objects import PodSet

_MISSPELT: Final = 0.75  # difflib's ratio of two words
_SHORTEST: Final = 4  # letters of a word that can be told from another

Place = tuple[int, int]  # how near, and the negative position: of two, the greater one is meant


class PodIndex:
    """Some pods, each with its position among all."""

    def __init__(self, pods: Iterable[tuple[int, PodSet]]) -> None:
        self._pods = dict(pods)
        self._shapes: defaultdict[frozenset[str], _Alike] = defaultdict(_Alike)
        self._names: defaultdict[str, list[int]] = defaultdict(list)
        self._pairs: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._spellings: defaultdict[tuple[object, ...], dict[str, None]] = defaultdict(dict)
        for position, each in self._pods.items():
            self._shapes[frozenset(each.labels)].add(position, each)
            self._names[each.manifest.name].append(position)
            for pair in each.labels.items():
                if pair not in self._pairs:
                    for signature in _signatures(pair[1]):
                        self._spellings[pair[0], *signature][pair[1]] = None
                self._pairs[pair].append(position)

    def nearest(self, selector: Mapping[str, str]) -> Place | None:
        """The first of the pods that are most like a selector; None if there are none."""
        found = [
            (keys + score[0], score[1])
            for shape, alike in self._shapes.items()
            for keys, score in [(len(shape & selector.keys()), alike.nearest(selector))]
        ]
        return max(found, default=None)

    def likely(self, name: str, selector: Mapping[str, str]) -> Iterator[tuple[int, PodSet]]:
        """The pods of a workload of that name, and those with a value of the selector misspelt or under another key."""
        found = set(self._names.get(name, ()))
        for key, value in selector.items():
            for shape, alike in self._shapes.items():
                if key not in shape:
                    found.update(alike.with_value(value))
            for other in self._like(key, value):
                found.update(self._pairs[key, other])
        for position in sorted(found):
            yield position, self._pods[position]

    def _like(self, key: str, value: str) -> set[str]:
        """The values of a key that are misspelt, or are what a misspelt one means."""
        return {
            other
            for signature in _signatures(value)
            for other in self._spellings.get((key, *signature), ())
            if is_misspelt(value, other)
        }


class _Alike:
    """Pods with the same keys, by the values of their labels."""

    def __init__(self) -> None:
        self._pods: dict[int, PodSet] = {}
        self._values: defaultdict[str, list[int]] = defaultdict(list)
        self._found: dict[tuple[str, ...], Place] = {}

    def add(self, position: int, pods: PodSet) -> None:
        self._pods[position] = pods
        for value in set(pods.labels.values()):
            self._values[value].append(position)

    def with_value(self, value: str) -> Sequence[int]:
        return self._values.get(value, ())

    def nearest(self, selector: Mapping[str, str]) -> Place:
        """How many values of the selector the first of the nearest pods has, and its position."""
        present = tuple(sorted(each for each in selector.values() if each in self._values))
        if present not in self._found:
            self._found[present] = self._best(present)
        return self._found[present]

    def _best(self, values: Sequence[str]) -> Place:
        best, seen = (0, -next(iter(self._pods))), set[int]()
        rare = sorted(set(values), key=lambda each: len(self._values[each]))
        left = len(values)
        for number, value in enumerate(rare):
            left -= values.count(value)
            for position in self._values[value]:
                if position in seen:
                    continue
                owned = set(self._pods[position].labels.values())
                best = max(best, (sum(each in owned for each in values), -position))
                if number == len(rare) - 1:
                    break  # the others have this value only, and are later
                seen.add(position)
            if best[0] > left:
                break  # those that were not seen have fewer
        return best


def is_misspelt(one: str, other: str) -> bool:
    """Whether two values differ in the letters of one word; `cache-1` and `cache-2` are two names."""
    words = _words(one), _words(other)
    pairs = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    if len(words[0]) != len(words[1]) or len(pairs) != 1:
        return False
    ((left, right),) = pairs
    if not _is_word(left) or not _is_word(right):
        return False
    matcher = SequenceMatcher(None, left, right)
    return (
        matcher.real_quick_ratio() >= _MISSPELT
        and matcher.quick_ratio() >= _MISSPELT
        and matcher.ratio() >= _MISSPELT
    )


def _words(value: str) -> list[str]:
    return re.split(r"[-_.]", value)


def _is_word(text: str) -> bool:
    return text.isalpha() and len(text) >= _SHORTEST


def _signatures(value: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """What two values that differ in one word have in common, for each word that it could be."""
    words = _words(value)
    for at, word in enumerate(words):
        if _is_word(word):
            yield at, (*words[:at], "", *words[at + 1 :])
