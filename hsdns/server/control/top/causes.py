"""Says in one sentence why a name fails.

Path: picture.py -> here -> explanation/explain.py.
Rule 1: the sentence is the first line of an explanation (docs/explain.md) that queries no other server.  For a
        forwarded name it says how the upstreams replied.
Rule 2: an explanation may read objects from the API server, so it is only repeated after the cluster or the
        configuration has changed, and at most once in REFRESH seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.server.control.explanations import import_explaining, resting
from hsdns.server.control.top.failing import FailingName
from hsdns.server.instance import Instance
from hsdns.wire.iana import type_from_text

if TYPE_CHECKING:
    from hsdns.explanation.report import Explanation

MOST: Final = 100  # sentences that are remembered
REFRESH: Final = 5.0  # seconds

Key = tuple[bytes, str, str]
_log = logging.getLogger("hsdns.server")


class _Known(NamedTuple):
    """A sentence, the state that it describes, and when it was computed (monotonic seconds)."""

    sentence: str
    state: tuple[int, ...]
    at: float


class Causes:
    """Finds the causes for one reader."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._known: dict[Key, _Known] = {}

    async def of(self, names: Sequence[FailingName]) -> list[str]:
        """Why each of some names fails."""
        instance, now = self._door.serving(), self._door.clock()
        state = id(instance), *(each.store.changes for each in kubernetes_blocks(instance))
        new = [each for each in names if self._is_due(_key(each), state, now)]
        # Side by side: each may wait for the API server.
        found = await asyncio.gather(*(self._find(instance, each) for each in new))
        if len(self._known) + len(new) > MOST:
            self._known = {key: self._known[key] for key in map(_key, names) if key in self._known}
        for each, sentence in zip(new, found, strict=True):
            self._known[_key(each)] = _Known(sentence, state, now)
        return [self._known[_key(each)].sentence for each in names]

    def _is_due(self, key: Key, state: tuple[int, ...], now: float) -> bool:
        known = self._known.get(key)
        return known is None or (known.state != state and now - known.at >= REFRESH)

    async def _find(self, instance: Instance, failing: FailingName) -> str:
        await import_explaining()
        from hsdns.server.explaining import make_explainer  # noqa: PLC0415 - for those who look

        forwarded, pause = _forwarded(instance, failing), resting(self._door.clock)
        explainer = make_explainer(
            instance.configuration, instance.runtime, asks=False, pause=pause
        )
        qtype = type_from_text(failing.type)
        try:
            found = await explainer.explain(failing.name, qtype, self._door.clock())
        except Exception:  # clients choose the names, and one name must not end the stream
            _log.exception("%s %s could not be explained", failing.name.to_text(), failing.type)
            return "this could not be explained; the server's log says why"
        return _sentence(found, forwarded)


def _key(failing: FailingName) -> Key:
    return failing.name.lower, failing.type, failing.rcode


def _sentence(found: Explanation, forwarded: str) -> str:
    if found.outcome == "resolves":
        return "asked from the server's own host, it has an answer now"
    if forwarded and any(each.plugin == "forward" for each in found.plugins):
        return forwarded
    cause = found.cause.removeprefix(f"{found.rcode}: ")
    if found.nearest and found.nearest[0].why not in cause:
        near = found.nearest[0]
        cause += f"; {near.name} exists ({near.why})"
    return cause


def _forwarded(instance: Instance, failing: FailingName) -> str:
    """How the upstreams replied for a name; empty if it is not forwarded."""
    from hsdns.plugins.forward import Forward  # noqa: PLC0415 - as above

    plugins = instance.configuration.plugins
    routes = [route for each in plugins if isinstance(each, Forward) for route in each.routes]
    for route in routes:
        if route.matches(failing.name):
            servers = ", ".join(map(str, route.upstreams))
            failed = sum(each.failed for each in route.upstreams)
            if failing.rcode == "SERVFAIL" and failed:
                return f"forwarded to {servers}; {failed} queries have got no usable reply there"
            return f"forwarded to {servers}, which answered {failing.rcode}"
    return ""
