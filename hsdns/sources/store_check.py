"""Consistency check of the store: compares it periodically with what the API server lists.

Path: HSDNS_CHECK_STORE=SECONDS -> plugins/kubernetes.py starts it -> source.objects() -> cluster/consistency.py.
Rule: it only reports; the store is not changed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Final

from hsdns.apiserver.transport import Unreachable
from hsdns.cluster.consistency import ConsistencyCheck, inconsistencies_in
from hsdns.cluster.source import Report, Surroundings
from hsdns.cluster.store import Store
from hsdns.sources.api_server import ApiServer

VARIABLE: Final = "HSDNS_CHECK_STORE"


def check_interval(report: Report, environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the seconds between two checks, None if they are off."""
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0.0:
        report(
            logging.WARNING,
            f'{VARIABLE} is "{text}", which is not a positive number of seconds; the store is not checked',
        )
        return None
    return seconds


async def _run_steps(steps: Generator[None, None, list[str]]) -> list[str]:
    """Run the steps, yielding to the event loop after each: in all they take a second for 10,000 Services."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[str] = end.value
            return found
        await asyncio.sleep(0)


async def check_store(
    source: ApiServer,
    store: Store,
    report: Report,
    around: Surroundings,
    seconds: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Compare every `seconds`, until cancelled."""
    check, counter = ConsistencyCheck(), inconsistencies_in(around.metrics)
    report(logging.INFO, f"the store is compared with the API server every {seconds:g} s")
    while True:
        await sleep(seconds)
        try:
            objects = await source.objects()
        except Unreachable as fault:
            report(logging.WARNING, f"cannot check the store: {fault}")
            continue
        for sentence in await _run_steps(check.steps(store, objects)):
            counter.inc()
            report(logging.ERROR, f"the store and the API server differ: {sentence}")
