"""The differences between a store and the objects that it should have."""

from __future__ import annotations

from collections.abc import Iterable

from hsdns.cluster.consistency import compare, empty_like, terminating_pods
from hsdns.cluster.objects import Object, Upserted
from hsdns.cluster.store import Store


def differences(store: Store, objects: Iterable[Object]) -> list[str]:
    """A sentence for each difference between a store and one that is built from the objects."""
    listed = list(objects)
    built = empty_like(store)
    built.apply([Upserted(each) for each in listed])
    terminating = terminating_pods(listed)
    return [
        found.sentence
        for found in compare(store, built)
        if found is not None and found.subject not in terminating
    ]
