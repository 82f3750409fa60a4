"""Names that exist and are near to one that does not: misspelt, elsewhere, or of another form.

Path: explain.py, for a name that does not exist -> here; every name that is told has been asked for.
Rule: a name is told only if the server has it for the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from hsdns.cluster.question import POD, SVC
from hsdns.cluster.reverse import is_reverse
from hsdns.explanation.edits import text
from hsdns.explanation.report import NearName
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

MOST: Final = 4  # names told
MOST_ASKED: Final = 200  # names asked for


def nearest(block: Kubernetes, qname: Name, qtype: int) -> list[NearName]:
    """Names of the block that exist for this type and are near to the one asked, the likeliest first."""
    zone = qname.longest_of(block.zones)
    home = zone or next(each for each in block.zones if not is_reverse(each))
    if is_reverse(home) or qtype in (RRType.AXFR, RRType.IXFR):
        return []
    found: dict[str, NearName] = {}
    guesses = _guesses(block, qname.labels if zone is None else qname.below(zone), home)
    if zone is None:
        guesses = _of_other_domain(qname, home)
    for asked, (labels, why) in enumerate(guesses):
        if asked >= MOST_ASKED or len(found) >= MOST:
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


def _near(word: str, known: Sequence[str], n: int = 3) -> list[str]:
    """Words that resemble one; two letters that are exchanged are half of a short word."""
    return get_close_matches(word, known, n, 0.5 if len(word) < 4 else 0.6)


def _of_other_domain(qname: Name, home: Name) -> Iterator[tuple[tuple[bytes, ...], str]]:
    labels = tuple(label.lower() for label in qname.labels)
    for kind in (SVC, POD):
        if kind in labels:
            at = labels.index(kind)
            other = ".".join(map(text, labels[at + 1 :]))
            told = f"the cluster domain is {home.to_text()}, not {other}."
            yield labels[: at + 1], told if other else "the cluster domain is missing"
    yield labels, "the cluster domain is missing"
    yield (*labels, SVC), "the labels svc and the cluster domain are missing"


def _guesses(
    block: Kubernetes, labels: tuple[bytes, ...], zone: Name
) -> Iterator[tuple[tuple[bytes, ...], str]]:
    values = block.answers.lookup.values(zone)
    if not labels:
        return
    if labels[-1] not in (SVC, POD):
        yield (*labels, SVC), "the label svc is missing"
        near = _near(text(labels[-1]), ["svc", "pod"], n=1)
        if near:
            yield (*labels[:-1], near[0].encode()), f'"{text(labels[-1])}" is misspelt'
        if SVC in labels:
            rest = tuple(label for label in labels if label != SVC)
            yield (*rest, SVC), "the label svc is not at its place"
        return
    if labels[-1] == POD:
        if len(labels) >= 3:
            for namespace, service in values:
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
    own = [service for place, service in values if place == namespace]
    if before:
        for service in own:
            if before[-1] in values[namespace, service].labels and service != name:
                yield (
                    (*before, service, namespace, SVC),
                    f"the endpoint belongs to Service {text(service)}",
                )
        value = values.get((namespace, name))
        if value is not None:
            for match in _near(text(before[0]), [*map(text, value.labels)], n=3):
                yield (match.encode(), name, namespace, SVC), "another endpoint of the Service"
            if len(before) == 2:
                for each in {port for part in value.slices for port in part.ports}:
                    yield (
                        (b"_" + each.name, b"_" + each.protocol, name, namespace, SVC),
                        "another port of the Service",
                    )
    places = {text(place) for place, _ in values}
    for match in _near(text(namespace), sorted(places), n=3):
        yield (*before, name, match.encode(), SVC), f'namespace "{text(namespace)}" is misspelt'
    for place, service in values:
        if service == name and place != namespace:
            yield (*before, name, place, SVC), f"in namespace {text(place)}"
    for match in _near(text(name), sorted(map(text, own)), n=3):
        yield (*before, match.encode(), namespace, SVC), f'Service "{text(name)}" is misspelt'
    if before:
        yield (name, namespace, SVC), "the Service itself"
