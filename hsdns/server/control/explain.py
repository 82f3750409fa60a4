"""Explains the answer to a question: /v1/explain.

Path: routes.py -> here -> explanation/explain.py, with the handlers and stores of the serving instance.
Rule: metrics and logs do not count an explanation as a query; a plugin that would query another server does query it.

Prepares explanations for pages: imports the code, and divides its work into short pieces:
Rule 1: the code is imported on first use, because it needs dnspython and few servers explain anything.  The import
        takes 0.2 s and runs in a thread, so that the loop answers misses meanwhile.
Rule 2: between two steps the loop answers queries.  After LONGEST the thread sleeps, because a thread that answers
        queries waits for a CPU about as long as this one has used it without a break.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib import import_module
from typing import Final

from hsdns.explanation.observed import Pause
from hsdns.explanation.question import PARAMETERS as ASKING
from hsdns.explanation.question import QuestionError, from_parameters, read_question
from hsdns.explanation.report import Explanation, PluginStep
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.server.control.door import Door, to_line
from hsdns.server.runtime import Turn

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


PARAMETERS: Final = ("name", "type", *ASKING)
ASKER: Final = frozenset(ASKING)


async def explain(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Explain the question in the parameters `name` and `type`, or with other parameters the lookup of a program."""
    name = asked.parameters.get("name", "")
    if not name:
        raise HttpRefusal(400, "no name is given; ask for /v1/explain?name=NAME&type=TYPE")
    pause = resting(door.clock)
    if ASKER.isdisjoint(asked.parameters):
        yield to_line(await _question(door, asked.parameters, pause))
    else:
        yield to_line(await _lookup(door, asked.parameters, pause))


async def _question(door: Door, given: Mapping[str, str], pause: Pause) -> Explanation:
    try:
        qname, qtype = read_question(given["name"], given.get("type", ""))
    except ValueError as error:
        raise HttpRefusal(400, str(error)) from None
    await import_explaining()
    from hsdns.server.explaining import make_explainer  # noqa: PLC0415 - imported for those who ask

    instance = door.serving()
    explainer = make_explainer(instance.configuration, instance, asks=True, pause=pause)
    found = await explainer.explain(qname, qtype, door.clock())
    beside = [] if door.faults is None else door.faults.beside_the_chain()
    found.plugins[:0] = [PluginStep("fault", words) for words in beside]
    return found


async def _lookup(door: Door, given: Mapping[str, str], pause: Pause) -> Explanation:
    try:
        asking = from_parameters(given)
    except ValueError as error:
        raise HttpRefusal(400, str(error)) from None
    await import_explaining()
    from hsdns.server.explaining import explain_lookup  # noqa: PLC0415 - as above

    instance = door.serving()
    try:
        return await explain_lookup(instance.configuration, instance, asking, pause=pause)
    except QuestionError as error:
        raise HttpRefusal(400, str(error)) from None
