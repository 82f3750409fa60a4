"""Invalid objects: each fault is logged once, counted at each reading, and forgotten when the object is valid again.

Path: services.py, pods.py and store.py, and sources for objects that cannot be decoded -> here -> log and
metrics.
Rule 1: an object that stays invalid costs one log line for each reason, however often it is updated.  Each time that
        something is skipped is counted.
Rule 2: at most MOST objects are remembered; the faults of further ones are only counted, which is logged once.
Rule 3: a valid object costs one check of a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from hsdns.metrics import Counter, Registry
from hsdns.wire import printable

MOST: Final = 10_000  # objects whose faults are remembered
LONGEST: Final = 80  # characters of an object's text that a sentence quotes

# A name or namespace is not a DNS label, a slice has no usable Service label, a hostname, address or externalName is
# invalid, or the object could not be decoded as its kind.
Reason = Literal["name", "owner", "hostname", "address", "external_name", "form"]
ObjectKey = tuple[str, str, str]  # kind, namespace, name


class RejectedObjects:
    """The faults of objects by kind, namespace, name and reason; `warn` takes a sentence for the operator."""

    def __init__(
        self, warn: Callable[[str], None], metrics: Registry | None = None, most: int = MOST
    ) -> None:
        self.is_pending = False  # whether finish() has anything to do
        self._warn = warn
        self._most = most
        self._counter = None if metrics is None else _counter_in(metrics)
        self._found: dict[Reason, str] = {}  # in the object that is being read
        self._known: dict[ObjectKey, frozenset[Reason]] = {}
        self._is_full = False

    def add(self, reason: Reason, sentence: str) -> None:
        """Record a fault of the object that is being read; finish() names that object."""
        self._found.setdefault(reason, sentence)
        self.is_pending = True

    def finish(self, kind: str, key: tuple[str, str], gone: bool) -> None:
        """Finish an object that was read: count its faults, log the new ones and forget the corrected ones."""
        if not self.is_pending:
            return
        if gone:
            self._found.clear()
            self._known.pop((kind, *key), None)
            self.is_pending = bool(self._known)
        else:
            self._settle(kind, *key)

    def reject(self, kind: str, namespace: str, name: str, reason: Reason, sentence: str) -> None:
        """Report an object that a source could not deliver; it is valid again once the store reads it."""
        self._found.clear()
        self.add(reason, sentence)
        self._settle(kind, namespace, name)

    def _settle(self, kind: str, namespace: str, name: str) -> None:
        found = self._found
        key = (kind, namespace, name)
        known = self._known.get(key, frozenset())
        if self._counter is not None:
            for reason in found:
                self._counter.inc((kind, reason))
        new = [reason for reason in found if reason not in known]
        if found and (known or len(self._known) < self._most):
            self._known[key] = frozenset(found)
            for reason in new:
                self._warn(f"{kind} {_path(namespace, name)}: {found[reason]}")
        elif found and not self._is_full:
            self._is_full = True
            self._warn(
                f"more than {self._most} objects are invalid; further ones are counted in "
                "hsdns_kubernetes_rejected_total but not logged"
            )
        elif not found:
            self._known.pop(key, None)
        found.clear()
        self.is_pending = bool(self._known)


def quoted(text: str) -> str:
    """The beginning of an object's text, for a log line: in quotes, with unprintable characters escaped."""
    plain = printable(text[:LONGEST])
    return f'"{plain}"' if len(text) <= LONGEST else f'"{plain}..." ({len(text)} characters)'


def _counter_in(metrics: Registry) -> Counter:
    return metrics.counter(
        "hsdns_kubernetes_rejected_total",
        "Objects that were left out or used in part because they break the rules, at each reading.",
        ("kind", "reason"),
    )


def _path(namespace: str, name: str) -> str:
    path = f"{namespace}/{name}" if namespace else name
    return quoted(path)[1:-1] if len(path) <= LONGEST else quoted(path)
