"""Explains the answer to a question: /v1/explain.

Path: routes.py -> here -> explanation/explain.py, with the handlers and stores of the serving instance.
Rule: metrics and logs do not count an explanation as a query; a plugin that would query another server does query it.

Prepares explanations for pages: imports the code, and divides its work into short pieces:
Rule 1: the code is imported on first use, because it needs dnspython and few servers explain anything.  The import
        takes 0.2 s and runs in a thread, so that the loop answers misses meanwhile.
Rule 2: between two steps the loop answers queries.  After LONGEST the thread sleeps, because a thread that answers
        queries waits for a CPU about as long as this one has used it without a break.

Says in one sentence why a name fails:
Rule 1: the sentence is the first line of an explanation (docs/explain.md) that queries no other server.  For a
        forwarded name it says how the upstreams replied.
Rule 2: an explanation may read objects from the API server, so it is only repeated after the cluster or the
        configuration has changed, and at most once in REFRESH seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from hsdns.ask.names import BadWord, read_word
from hsdns.explanation.observed import Pause
from hsdns.explanation.question import PARAMETERS as ASKING
from hsdns.explanation.question import QuestionError, from_parameters, read_question
from hsdns.explanation.report import Explanation, PluginStep
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.plugins.forward import Route

LONGEST: Final = 0.0001  # seconds of work without a break
REST: Final = 0.001  # seconds of a break: the shortest possible timer of the event loop
_CODE: Final = "hsdns.server.explaining"
_imported: set[str] = set()


async def import_explaining() -> None:
    """Import the code of explanations, unless it is imported already."""
    if _CODE not in _imported:
        await asyncio.to_thread(import_module, _CODE)
        _imported.add(_CODE)


def resting(clock: Callable[[], float]) -> Pause:
    """Return the function that an explanation awaits between its steps; `clock` gives monotonic seconds."""
    return Turn(clock, LONGEST, REST).end_if_long


PARAMETERS: Final = ("name", "type", "namespace", *ASKING)
ASKER: Final = frozenset(ASKING)


async def explain(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Explain the question in the parameters `name` and `type`, or with other parameters the lookup of a program."""
    name = asked.parameters.get("name", "")
    if not name:
        raise HttpRefusal(400, "no name is given; request /v1/explain?name=NAME&type=TYPE")
    try:
        yield to_line(await _explanation(door, asked.parameters, resting(door.clock)))
    except (BadWord, QuestionError) as error:
        raise HttpRefusal(400, str(error)) from None


async def _explanation(door: Door, given: Mapping[str, str], pause: Pause) -> Explanation:
    await import_explaining()
    from hsdns.server.explaining import (  # noqa: PLC0415 - imported for those who ask
        explain_lookup,
        make_explainer,
        name_of,
    )

    instance, is_lookup = door.serving(), not ASKER.isdisjoint(given)
    word = read_word(given["name"], given.get("namespace", ""))
    name = await name_of(instance, word, as_typed=is_lookup)
    if is_lookup:
        asking = from_parameters({**given, "name": name})
        return await explain_lookup(instance, asking, pause=pause)
    qname, qtype = read_question(name, given.get("type", ""))
    explainer = make_explainer(instance, asks=True, pause=pause)
    found = await explainer.explain(qname, qtype, door.clock())
    beside = [] if door.faults is None else door.faults.beside_the_chain()
    found.plugins[:0] = [PluginStep("fault", words) for words in beside]
    return found


@dataclass
class FailingName:
    """A name, type and rcode; `queries` is their number, with the time of the last one (seconds since the epoch)."""

    name: Name
    type: str
    rcode: str
    queries: float = 0.0
    last: float = 0.0


RESOLVES: Final = "queried from the server's own host, it has an answer now"
MOST_CAUSES: Final = 100  # sentences that are remembered
REFRESH: Final = 5.0  # seconds

Question = tuple[bytes, str, str]
_log = logging.getLogger("hsdns.server")


class Why(NamedTuple):
    """Why a name fails, and what to do about it, "" if that is not known."""

    cause: str
    todo: str = ""


class _Known(NamedTuple):
    """A cause, the state that it describes, and when it was computed (monotonic seconds)."""

    why: Why
    state: tuple[object, ...]
    at: float


class Causes:
    """Finds the causes for the readers of one selection."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._known: dict[Question, _Known] = {}

    async def of(self, names: Sequence[FailingName]) -> list[Why]:
        """Why each of some names fails."""
        instance, now = self._door.serving(), self._door.clock()
        rules = self._door.faults.rules.standing.values() if self._door.faults is not None else ()
        changes = (each.store.changes for each in kubernetes_blocks(instance))
        state = ref(instance), *changes, *((each.text, each.begun) for each in rules)
        new = [each for each in names if self._is_due(key_of(each), state, now)]
        # Side by side: each may wait for the API server.
        found = await asyncio.gather(*(self._find(instance, each) for each in new))
        if len(self._known) + len(new) > MOST_CAUSES:
            self._known = {
                key: self._known[key] for key in map(key_of, names) if key in self._known
            }
        for each, why in zip(new, found, strict=True):
            self._known[key_of(each)] = _Known(why, state, now)
        return [self._known[key_of(each)].why for each in names]

    def _is_due(self, key: Question, state: tuple[object, ...], now: float) -> bool:
        known = self._known.get(key)
        return known is None or (known.state != state and now - known.at >= REFRESH)

    async def _find(self, instance: Instance, failing: FailingName) -> Why:
        await import_explaining()
        from hsdns.server.explaining import make_explainer  # noqa: PLC0415 - for those who look

        forwarded, pause = _forwarded(instance, failing), resting(self._door.clock)
        explainer = make_explainer(instance, asks=False, pause=pause)
        qtype = type_from_text(failing.type)
        try:
            found = await explainer.explain(failing.name, qtype, self._door.clock())
        except Exception:  # clients choose the names, and one name must not end the stream
            _log.exception("%s %s could not be explained", failing.name.to_text(), failing.type)
            return Why("this could not be explained; the server's log says why")
        return _why(found, forwarded)


def key_of(failing: FailingName) -> Question:
    """What makes it another failure."""
    return failing.name.lower, failing.type, failing.rcode


def _why(found: Explanation, forwarded: str) -> Why:
    if found.outcome == "resolves" and not found.faults:
        return Why(RESOLVES)
    # Of a name that is meant to be one of the cluster, the cause is not what another server says.
    if forwarded and not found.todo and any(each.plugin == "forward" for each in found.plugins):
        return Why(forwarded)
    return Why(found.cause.removeprefix(f"{found.rcode}: "), found.todo)


def _forwarded(instance: Instance, failing: FailingName) -> str:
    """How the upstreams replied for a name; empty if it is not forwarded."""
    for route in routes(instance):
        if route.matches(failing.name):
            servers = ", ".join(map(str, route.upstreams))
            failed = sum(each.failed for each in route.upstreams)
            if failing.rcode == "SERVFAIL" and failed:
                return f"forwarded to {servers}; {failed} queries have got no usable reply there"
            return f"forwarded to {servers}, which answered {failing.rcode}"
    return ""


def routes(instance: Instance) -> list[Route]:
    """The routes of all `forward` plugins."""
    # The import takes 25 ms, and only readers of this page need it.
    from hsdns.plugins.forward import Forward  # noqa: PLC0415 - as said

    plugins = instance.configuration.plugins
    return [route for each in plugins if isinstance(each, Forward) for route in each.routes]
