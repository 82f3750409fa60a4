"""Why a question has the answer that it has: /v1/explain.

Path: routes.py -> here -> explanation/explain.py, over the handlers and stores of the instance that serves.
Rule: between two steps, queries are answered.  An explanation is none of the queries that metrics and logs count, but a
      plugin that asks another server asks it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hsdns.explanation.asked import read_question
from hsdns.explanation.report import PluginStep
from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, to_line
from hsdns.server.runtime import Turn


async def explain(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Explain the question of the parameters `name` and `type`."""
    name, rrtype = asked.parameters.get("name", ""), asked.parameters.get("type", "")
    if not name:
        raise HttpRefusal(400, "no name is given; ask for /v1/explain?name=NAME&type=TYPE")
    try:
        qname, qtype = read_question(name, rrtype)
    except ValueError as error:
        raise HttpRefusal(400, str(error)) from None
    # Imported for those who ask: it needs dnspython, which few servers do.
    from hsdns.server.explaining import make_explainer  # noqa: PLC0415 - as said

    instance = door.serving()
    pause = Turn(door.clock).end_if_long
    explainer = make_explainer(instance.configuration, instance.runtime, asks=True, pause=pause)
    found = await explainer.explain(qname, qtype, door.clock())
    beside = [] if door.faults is None else door.faults.beside_the_chain()
    found.plugins[:0] = [PluginStep("fault", words) for words in beside]
    yield to_line(found)
