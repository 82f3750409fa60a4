"""Explains the answer to a question: /v1/explain.

Path: routes.py -> here -> explanation/explain.py, with the handlers and stores of the serving instance.
Rule: metrics and logs do not count an explanation as a query; a plugin that would query another server does query it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from hsdns.explanation.observed import Pause
from hsdns.explanation.question import PARAMETERS as ASKING
from hsdns.explanation.question import QuestionError, from_parameters, read_question
from hsdns.explanation.report import Explanation, PluginStep
from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, to_line
from hsdns.server.control.explanations import import_explaining, resting

PARAMETERS: Final = ("name", "type", *ASKING)
ASKER: Final = frozenset(ASKING)


async def explain(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
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
    explainer = make_explainer(instance.configuration, instance.runtime, asks=True, pause=pause)
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
        return await explain_lookup(instance.configuration, instance.runtime, asking, pause=pause)
    except QuestionError as error:
        raise HttpRefusal(400, str(error)) from None
