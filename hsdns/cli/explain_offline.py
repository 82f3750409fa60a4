"""Explains a question from a source and a Corefile, without a server.

Path: cli/explain.py -> here -> the plugins of the Corefile, started without ports -> explanation/explain.py.
Rule: it opens no port, queries no other server and writes no file; a snapshot is read, but not saved.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hsdns.assemble import Configuration
from hsdns.cli.offline import Problems, configure, kubernetes_blocks, make_runtime, read_clusters
from hsdns.corefile.tree import Token
from hsdns.explanation.question import LookupQuestion
from hsdns.explanation.report import Explanation
from hsdns.server.explaining import explain_lookup, make_explainer
from hsdns.wire.name import Name

# Plugins that are not started: they work independently of queries, or query other servers.
NOT_STARTED: Final = frozenset(
    {"cancel", "errors", "forward", "health", "log", "loop", "pprof", "prometheus", "ready", "reload", "secondary"}
)  # fmt: skip


def explain_offline(
    conf: object,
    objects: tuple[Token, ...] | None,
    qname: Name,
    qtype: int,
    asks: LookupQuestion | None = None,
    *,
    runs_code: bool = True,
) -> tuple[Explanation, bool]:
    """Explain a question, and return whether everything was read; raise CorefileError, QuestionError or OSError.

    `conf` is the flag, `objects` are the words of -source, `asks` is a program's lookup.
    """
    configuration, problems = configure(conf, objects, runs_code=runs_code)
    found = asyncio.run(_explain(configuration, qname, qtype, problems, asks))
    return found, not problems.errors


async def _explain(
    configuration: Configuration,
    qname: Name,
    qtype: int,
    problems: Problems,
    asks: LookupQuestion | None,
) -> Explanation:
    runtime = make_runtime(configuration)
    blocks = kubernetes_blocks(configuration)
    plugins = [each for each in configuration.plugins if each.name not in NOT_STARTED]
    started = []
    try:
        for plugin in plugins:
            started.append(plugin)
            await plugin.start(runtime)
        await read_clusters(runtime, blocks, lambda: problems.is_denied)
        if asks is not None:
            return await explain_lookup(
                configuration, runtime, asks, pause=_go_on, problems=problems.sentences
            )
        explainer = make_explainer(configuration, runtime, asks=False, pause=_go_on)
        return await explainer.explain(qname, qtype, runtime.clock(), problems.sentences)
    finally:
        for plugin in started:
            await plugin.stop()
        await runtime.queries.cancel()
        await runtime.tasks.cancel()


async def _go_on() -> None:
    pass
