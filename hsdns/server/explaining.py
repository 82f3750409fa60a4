"""Explanations of a configuration's answers: gives the package explanation/ its sockets, tasks and clocks.

Path: control/explain.py, for a server; explanation/cli.py, for plugins that a command has started.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from hsdns.ask.names import Word
from hsdns.explanation.client import client_of, name_meant
from hsdns.explanation.explain import Explainer
from hsdns.explanation.live import LiveObjects
from hsdns.explanation.lookup import explain_for_client
from hsdns.explanation.observed import Edges, Pause, go_on
from hsdns.explanation.question import LookupQuestion, QuestionError
from hsdns.explanation.report import Explanation
from hsdns.fastpath import Peeked
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver import MODELS
from hsdns.resolver.resolv_conf import MOST_SEARCHES
from hsdns.server.runtime import ServerRuntime, begin
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

# Seconds to read the objects behind a question; a source has a shorter timeout of its own.
WAIT: Final = 1.5


def make_explainer(
    runtime: ServerRuntime,
    *,
    asks: bool,
    pause: Pause = go_on,
    is_builtin: bool | None = None,
    is_elsewhere: bool | None = None,
    acts: bool = False,
) -> Explainer:
    """Make the Explainer of a configuration; with `asks` it queries other servers; it awaits `pause` between steps.

    `is_builtin`: in a command, whether the Corefile is the built-in one, so that what it forwards is not known; None in
    the server itself.  `is_elsewhere` and `acts` are those of Edges; by default a command's server may be elsewhere.
    """
    configuration, in_watch = runtime.configuration, partial(runtime.in_watch, seconds=WAIT)
    seeing = {
        id(plugin): LiveObjects(plugin, in_watch)
        for plugin in configuration.plugins
        if isinstance(plugin, Kubernetes)
    }
    edges = Edges(
        runtime.queries.spawn,
        asks,
        partial(_run, runtime),
        pause,
        runtime.clock,
        is_builtin=bool(is_builtin),
        is_elsewhere=is_builtin is not None if is_elsewhere is None else is_elsewhere,
        acts=acts,
    )
    if asks and is_builtin is None:
        edges = edges._replace(counters=runtime.counters, peek=partial(_peek, runtime))
    return Explainer(configuration, seeing, edges)


def _peek(runtime: ServerRuntime, server: str, query: bytes, now: float) -> Peeked | None:
    processor = runtime.processors.get(server)
    table = processor.table if processor is not None else None
    return table.peek(query, now=now) if table is not None else None


async def name_of(runtime: ServerRuntime, word: Word, *, as_typed: bool = False) -> str:
    """The domain name that a word means, once the cluster has been read; raise QuestionError or BadWord."""
    in_watch = partial(runtime.in_watch, seconds=WAIT)
    return await name_meant(runtime.configuration, word, in_watch, as_typed=as_typed)


async def explain_lookup(
    runtime: ServerRuntime,
    asking: LookupQuestion,
    *,
    pause: Pause = go_on,
    problems: Sequence[str] = (),
    is_builtin: bool | None = None,
) -> Explanation:
    """Explain the lookup of a program, once the cluster has been read; raise QuestionError.

    It queries no other server, because the clock of the lookup is virtual.
    """
    explainer = make_explainer(runtime, asks=False, pause=pause, is_builtin=is_builtin)
    asker = await client_of(runtime.configuration, asking, partial(runtime.in_watch, seconds=WAIT))
    searched = max(len(MODELS[each].read(asker.text).search) for each in asker.resolvers)
    if searched > MOST_SEARCHES:  # each costs the server a lookup
        raise QuestionError(
            f"the search list has {searched} domains; leave some out: at most {MOST_SEARCHES} are explained, "
            "as many as Kubernetes allows a Pod (glibc before 2.26 reads 6)"
        )
    try:
        return await explain_for_client(explainer, asker, asking, runtime.clock(), problems)
    except ValueError as error:
        raise QuestionError(f"a name of the search list cannot be looked up: {error}") from None


async def _run(runtime: ServerRuntime, asking: Coroutine[Any, Any, Reply]) -> Reply:
    reply = await begin(asking, runtime.queries.spawn)
    return unwritten(Rcode.SERVFAIL) if reply is None else reply
