"""What is wrong with which object: told once, counted each time, forgotten when it is right again.

Path: pack.py and store.py (and sources, for objects that cannot be read at all) -> here -> log and metrics.
Rule 1: an object that stays wrong costs one sentence for each reason, however often it is updated; every reading that
        leaves something out counts.
Rule 2: what is remembered is bounded.  Beyond MOST objects nothing more is told, which is itself told once.
Rule 3: an object without faults costs one look at a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from hsdns.metrics import Registry

MOST: Final = 10_000  # objects whose faults are remembered
LONGEST: Final = 80  # characters of an object's text that a sentence repeats

# What can be wrong: the name or namespace is no DNS label, a slice has no usable service label, a hostname, an
# address or an externalName is none, or it has not the form of its kind and could not be read.
Reason = Literal["name", "owner", "hostname", "address", "external_name", "form"]
ObjectKey = tuple[str, str, str]  # kind, namespace, name


class Complaints:
    """Faults of objects by kind, namespace, name and reason; `tell` takes a sentence for the operator."""

    def __init__(self, tell: Callable[[str], None], most: int = MOST) -> None:
        self.wanted = False  # whether settle() has anything to do, for the caller's shortcut
        self._tell = tell
        self._most = most
        self._count: Callable[[str, str], None] = lambda kind, reason: None
        self._found: dict[Reason, str] = {}  # about the object that is being read
        self._known: dict[ObjectKey, frozenset[Reason]] = {}
        self._is_full = False

    def count_in(self, metrics: Registry) -> None:
        """Count here from now on."""
        counter = metrics.counter(
            "hsdns_kubernetes_rejected_total",
            "Objects that were left out or used in part because they break the rules, at each reading.",
            ("kind", "reason"),
        )
        self._count = lambda kind, reason: counter.inc((kind, reason))

    def __len__(self) -> int:
        """How many objects are remembered."""
        return len(self._known)

    def add(self, reason: Reason, sentence: str) -> None:
        """Note a fault of the object that is being read; settle() says which one that is."""
        self._found.setdefault(reason, sentence)
        self.wanted = True

    def settle(self, kind: str, namespace: str, name: str) -> None:
        """End the reading of an object: count its faults, tell those that are new, forget those that are gone."""
        found = self._found
        key = (kind, namespace, name)
        known = self._known.get(key, frozenset())
        for reason in found:
            self._count(kind, reason)
        new = [reason for reason in found if reason not in known]
        if found and (known or len(self._known) < self._most):
            self._known[key] = frozenset(found)
            for reason in new:
                self._tell(f"{kind} {_path(namespace, name)}: {found[reason]}")
        elif found and not self._is_full:
            self._is_full = True
            self._tell(
                f"more than {self._most} objects break the rules; what is wrong with further ones is "
                "counted in hsdns_kubernetes_rejected_total and not told"
            )
        elif not found:
            self._known.pop(key, None)
        found.clear()
        self.wanted = bool(self._known)

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """Take it that an object is gone."""
        self._found.clear()
        self._known.pop((kind, namespace, name), None)
        self.wanted = bool(self._known)

    def reject(self, kind: str, namespace: str, name: str, reason: Reason, sentence: str) -> None:
        """Note an object that never came as far as the store; it is right again when the store reads it."""
        self._found.clear()
        self.add(reason, sentence)
        self.settle(kind, namespace, name)


def shown(text: str) -> str:
    """An object's own text in a sentence: its beginning, without what could break a line or hide in it."""
    begin = text[:LONGEST]
    plain = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in begin)
    return f'"{plain}"' if len(text) <= LONGEST else f'"{plain}..." ({len(text)} characters)'


def _path(namespace: str, name: str) -> str:
    path = f"{namespace}/{name}" if namespace else name
    return shown(path)[1:-1] if len(path) <= LONGEST else shown(path)
