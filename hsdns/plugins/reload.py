"""Reloads a changed Corefile automatically.

Path: beside the queries; server/lifecycle.py reloads, through `runtime.reload_if_changed()`.
Source: CoreDNS 1.14.7 plugin/reload.
Rule 1: this plugin decides only when to check.  The digest is that of the parsed file with all its imports, so
        comments, white space and modification times do not matter, and a ConfigMap's symlinks need no special handling.
Rule 2: the metrics are defined here; server/lifecycle.py sets them through the functions below.
"""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Sequence
from random import Random
from typing import Final, Self

from hsdns.corefile.properties import duration, no_body, one_of
from hsdns.corefile.tree import Directive
from hsdns.metrics import Counter, Gauge, Registry
from hsdns.plugin import Block, Plugin, Runtime

DEFAULT_INTERVAL: Final = 30.0  # seconds, like all durations here; CoreDNS plugin/reload setup.go
DEFAULT_JITTER: Final = 15.0
MIN_INTERVAL: Final = 2.0
MIN_JITTER: Final = 1.0
_log = logging.getLogger("hsdns.plugin.reload")


class Reload(Plugin):
    """Checks the Corefile for changes periodically."""

    def __init__(self, interval: float = DEFAULT_INTERVAL, jitter: float = DEFAULT_JITTER) -> None:
        self.interval = interval
        self.jitter = min(jitter, interval / 2)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `reload [INTERVAL] [JITTER]`."""
        directive = one_of(directives, block.warn)
        no_body(directive, may_be_empty=True)
        if len(directive.args) > 2:
            raise directive.args[2].error(
                f'"reload" takes at most 2 arguments, INTERVAL and JITTER, found {len(directive.args)}'
            )
        interval, jitter = DEFAULT_INTERVAL, DEFAULT_JITTER
        if directive.args:
            interval = duration(MIN_INTERVAL)(directive.args[0])
        if len(directive.args) > 1:
            token = directive.args[1]
            jitter = duration()(token)
            if 0 < jitter < MIN_JITTER:
                raise token.error(
                    f'jitter {token.text} is too short; give "0s" or at least {MIN_JITTER:g}s'
                )
        return cls(interval, jitter)

    def period(self, random: Random) -> float:
        """Choose the seconds between two checks, INTERVAL plus or minus half of JITTER.

        Called once, so that several servers with the same Corefile never check at the same time for long.
        """
        return self.interval + (random.random() - 0.5) * self.jitter

    async def start(self, runtime: Runtime) -> None:
        """Start the periodic check."""
        failures(runtime.metrics)
        versions(runtime.metrics)
        runtime.spawn(self._watch(runtime, self.period(runtime.random)), "reload")

    async def _watch(self, runtime: Runtime, period: float) -> None:
        while True:
            await sleep(period)
            await runtime.reload_if_changed()


def failures(metrics: Registry) -> Counter:
    """Return the counter of failed reloads."""
    return metrics.counter("coredns_reload_failed_total")


def versions(metrics: Registry) -> Gauge:
    """Return the gauge that show_version() sets."""
    return metrics.gauge("coredns_reload_version_info", ("hash", "value"))


def show_version(metrics: Registry, digest: str) -> None:
    """Export the digest (SHA-512, hex) of the last reload, failed or not; as in CoreDNS, not at startup."""
    gauge = versions(metrics)
    gauge.values = {("sha512", digest): 1}


def show_running(digest: str) -> None:
    """Log the digest of the active Corefile (SHA-512, hex)."""
    _log.info("plugin/reload: Running configuration SHA512 = %s", digest)
