"""Finds existing names near to a missing one: misspelt, in another place, or in another form.

Path: explain.py, for a name that does not exist -> here; every reported name has been queried.
Rule: a name is reported only if the server has records of the same type for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from heapq import nlargest
from itertools import chain, islice
from operator import eq
from string import ascii_lowercase, digits
from typing import Final

from hsdns.cluster.address import is_reverse
from hsdns.cluster.schema import POD, SVC
from hsdns.cluster.store import address_in
from hsdns.cluster.value import ServiceValue
from hsdns.explanation.report import NearName
from hsdns.explanation.scene import text
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

# Finds words near to a misspelt one, at a cost that does not grow with the number of words.
#
# Rule 1: words that differ in one letter are found by generating all such words and looking them up.
# Rule 2: of words that differ more, only the first FIRST are considered; at most MOST of them that begin or end alike
#         are compared by their sets of letters, and the FEW with the most letters in common are compared exactly.


ITSELF: Final = "the Service itself"  # how the name of a Service differs from one below it
FIRST: Final = 20_000
MOST_COMPARED: Final = 600
FEW: Final = 30
LOOKS: Final = 500  # words that are read between two pauses
COMPARED: Final = 100  # words that are compared
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
        if len(scored) == MOST_COMPARED:
            break
        if len(scored) % COMPARED == 0:
            yield None
    best = [each for _, each in nlargest(FEW, scored) if each != word and each not in found]
    yield None
    yield from _nearest(word, best, most - len(found))


def _nearest(word: str, words: Sequence[str], most: int) -> Iterator[str | None]:
    """The words that have the most letters in common with one, and None where others may run."""
    near: list[tuple[float, int]] = []
    matcher = SequenceMatcher(None, "", word)
    for place, each in enumerate(words):
        if place % CAREFULLY == CAREFULLY - 1:
            yield None
        matcher.set_seq1(each)
        bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
        if all(bound() >= NEAR for bound in bounds):  # each is nearer than the previous one
            near.append((matcher.ratio(), -place))
    for _, place in nlargest(most, near):
        yield words[-place]


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


MOST: Final = 4  # names that are reported
MOST_ASKED: Final = 200  # names that are queried
KEYS: Final = 500  # Services whose names are checked between two pauses
PIECE: Final = 20  # Services whose labels are checked between two pauses
Guess = tuple[tuple[bytes, ...], str]  # labels below the zone, and how they differ


async def nearest(
    block: Kubernetes, qname: Name, qtype: int, pause: Callable[[], Awaitable[None]]
) -> list[NearName]:
    """Existing names of the block for this type that are near to the queried one, the likeliest first."""
    zone = qname.longest_of(block.zones)
    home = zone or next(each for each in block.zones if not is_reverse(each))
    if not qname.labels or is_reverse(home) or qtype in (RRType.AXFR, RRType.IXFR):
        return []
    found: dict[str, NearName] = {}
    guesses: Iterator[Guess | None] = chain(
        _of_other_domain(qname, home), _short(block, qname, home)
    )
    if zone is not None:
        guesses = _guesses(block, qname.below(zone), home)
    asked = 0
    for guess in guesses:
        await pause()
        if guess is None:
            continue
        labels, why = guess
        asked += 1
        if asked > MOST_ASKED or len(found) >= MOST:
            break
        try:
            name = Name.from_labels((*labels, *home.labels))
        except ValueError:
            continue
        told = name.to_text()
        if told in found or name == qname:
            continue
        if block.answers.lookup.parse(name, home) and not block.answers.is_missing(
            name, qtype, home
        ):
            found[told] = NearName(told, why)
    return list(found.values())


def _of_other_domain(qname: Name, home: Name) -> Iterator[Guess]:
    labels = tuple(label.lower() for label in qname.labels)
    for kind in (SVC, POD):
        if kind in labels:
            at = labels.index(kind)
            other = ".".join(map(text, labels[at + 1 :]))
            told = f"the cluster domain is {home.to_text().removesuffix('.')}, not {other}"
            yield labels[: at + 1], told if other else "the cluster domain is missing"
    yield labels, "the cluster domain is missing"
    yield (*labels, SVC), "the labels svc and the cluster domain are missing"


def _short(block: Kubernetes, qname: Name, home: Name) -> Iterator[Guess]:
    """The Services that a name of one label may mean; such names need a search list."""
    if len(qname.labels) == 1:
        name, values = qname.labels[0].lower(), block.answers.lookup.values(home)
        for place in sorted(block.store.namespaces.copy()):
            if (place, name) in values:
                yield (
                    (name, place, SVC),
                    f"only the search list of a Pod in namespace {text(place)} makes the name whole",
                )


def _guesses(block: Kubernetes, labels: tuple[bytes, ...], zone: Name) -> Iterator[Guess | None]:
    """Yield guesses, and None where other work may run."""
    values = block.answers.lookup.values(zone)
    if not labels:
        return
    if labels[-1] not in (SVC, POD):
        yield (*labels, SVC), "the label svc is missing"
        near = get_close_matches(text(labels[-1]), ["svc", "pod"], n=1)
        if near:
            yield (*labels[:-1], near[0].encode()), f'"{text(labels[-1])}" is misspelt'
        if SVC in labels:
            rest = tuple(label for label in labels if label != SVC)
            yield (*rest, SVC), "the label svc is not at its place"
        return
    if labels[-1] == POD:
        if len(labels) >= 3:
            for namespace, service in list(values):  # events may arrive meanwhile
                if namespace == labels[-2]:
                    yield (
                        (labels[0], service, namespace, SVC),
                        "names of pods with a hostname are below their Service",
                    )
        return
    if len(labels) < 3:
        return
    *left, name, namespace, _ = labels
    before = tuple(left)
    yield (*before, namespace, name, SVC), "Service and namespace are exchanged"
    own: list[bytes] = []
    if namespace in block.store.namespaces:
        keys = list(values)  # events may arrive meanwhile
        for at in range(0, len(keys), KEYS):
            yield None
            own += [service for place, service in keys[at : at + KEYS] if place == namespace]
    if before:
        for number, service in enumerate(own):
            if number % PIECE == 0:
                yield None
            other = values.get((namespace, service))
            if other is not None and service != name and _has_label(other, before[-1]):
                why = f"the endpoint belongs to Service {text(service)}"
                yield (*before, service, namespace, SVC), why
        value = values.get((namespace, name))
        if value is not None:
            for match in close_words(text(before[0]), dict.fromkeys(map(text, value.labels)), 3):
                why = "another endpoint of the Service"
                yield None if match is None else ((match.encode(), name, namespace, SVC), why)
            if len(before) == 2:
                named = (port for part in value.slices for port in part.ports if port.name)
                for each in dict.fromkeys(named):
                    yield (
                        (b"_" + each.name, b"_" + each.protocol, name, namespace, SVC),
                        "another port of the Service",
                    )
    places = dict.fromkeys(map(text, sorted(block.store.namespaces.copy())))
    for match in close_words(text(namespace), places, 3):
        why = f'namespace "{text(namespace)}" is misspelt'
        yield None if match is None else ((*before, name, match.encode(), SVC), why)
    for place in sorted(block.store.namespaces.copy()):
        if place != namespace and (place, name) in values:
            yield (*before, name, place, SVC), f"in namespace {text(place)}"
    for match in close_words(text(name), dict.fromkeys(map(text, own)), 3):
        why = f'Service "{text(name)}" is misspelt'
        yield None if match is None else ((*before, match.encode(), namespace, SVC), why)
    if before:
        yield (name, namespace, SVC), ITSELF


def _has_label(value: ServiceValue, label: bytes) -> bool:
    """Whether an endpoint has a label; ServiceValue.labels would compute and keep those of every Service."""
    address = address_in(label)
    return any(
        label in (part.labels or ())
        or (address is not None and any(True for _ in part.positions(address)))
        for part in value.slices
    )
