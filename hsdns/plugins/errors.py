"""Logs errors that occur while queries are processed.

Path: step 5, before all plugins that may fail, directly after `prometheus`; it looks at the replies on their way back.
Source: CoreDNS 1.14.7 plugin/errors.
Rule 1: it logs `Reply.error`, the error message of a handler; an rcode alone, even SERVFAIL, is not an error.
Rule 2: an error that matches a `consolidate` pattern is counted instead, and the count is logged when the period has
        passed since the first error.  The first pattern that matches applies.
Rule 3: `stacktrace` is for exceptions of handlers: server/lifecycle.py passes it to query.py, which logs them.
Rule 4: cacheable: it changes no reply, and a reply with an error must not be stored anywhere.
"""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import (
    Pattern,
    Property,
    duration,
    duration_to_text,
    flag,
    only_once,
    read_pattern,
    read_properties,
)
from hsdns.corefile.tree import Directive, Line
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import Reply

_log = logging.getLogger("hsdns.plugin.errors")

LEVELS: Final = {
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class Consolidation(NamedTuple):
    """A `consolidate` line; `period` in seconds."""

    period: float
    pattern: Pattern
    level: int = logging.ERROR
    show_first: bool = False


def read_consolidation(line: Line) -> Consolidation:
    """Parse `consolidate DURATION REGEXP [LEVEL] [show_first]`."""
    if not 2 <= len(line.args) <= 4:
        raise line.error(
            f'property "consolidate" takes DURATION REGEXP [LEVEL] [show_first], found {len(line.args)} arguments'
        )
    period = duration()(line.args[0])
    expression = line.args[1]
    pattern = read_pattern(expression)
    level, show_first = None, False
    for token in line.args[2:]:
        if token.one_of((*LEVELS, "show_first")) == "show_first":
            show_first = True
        elif level is not None:
            raise token.error(f'"{token.text}" is a second level; only one is allowed')
        elif show_first:
            raise token.error(f'level "{token.text}" must precede "show_first"')
        else:
            level = LEVELS[token.text]
    return Consolidation(period, pattern, logging.ERROR if level is None else level, show_first)


class Errors(Plugin):
    """Logs the errors of the handlers after it."""

    skips_recompute = True
    cacheable = True
    skips_forwarded = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "stacktrace": Property(flag, default=False, reads=0, stops=True),
        "consolidate": Property(
            read_consolidation, syntax="DURATION REGEXP [LEVEL] [show_first]", repeat="collect"
        ),
    }

    def __init__(
        self, consolidations: Sequence[Consolidation] = (), *, stacktrace: bool = False
    ) -> None:
        self.stacktrace = stacktrace  # query.py logs the stacks of exceptions
        self._windows = tuple(_Window(each) for each in consolidations)
        self._counting: Runtime | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `errors [stdout]`; `stdout` has no effect, there is no other output."""
        token = optional_argument(only_once(directives))
        if token is not None and token.text != "stdout":
            raise token.error(f'cannot log errors to "{token.text}"; remove it or write "stdout"')
        options = read_properties(directives, cls.PROPERTIES)
        return cls(options["consolidate"], stacktrace=options["stacktrace"])

    async def start(self, runtime: Runtime) -> None:
        """Start to consolidate; before that and after stop() each error is logged individually."""
        self._counting = runtime

    async def stop(self) -> None:
        """Log the counts of the current periods."""
        self._counting = None
        for window in self._windows:
            window.flush()

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass all queries on; log the error of the reply, if it has one."""
        reply = await next(request)
        if reply.error is not None:
            self._log_error(request, reply.rcode, reply.error)
        return reply

    def _log_error(self, request: Request, rcode: int, error: str) -> None:
        level = logging.ERROR
        for window in self._windows:
            if window.consolidation.pattern.search(error):
                if self._counting is not None and window.count(self._counting):
                    return
                level = window.consolidation.level
                break
        qname = request.query.qname.lowered().to_text()
        _log.log(
            level,
            "plugin/errors: %d %s %s: %s",
            rcode,
            qname,
            type_to_text(request.query.qtype),
            error,
        )


class _Window:
    """The errors that match one pattern in the current period, which begins with the first one."""

    def __init__(self, consolidation: Consolidation) -> None:
        self.consolidation = consolidation
        self._errors = 0

    def count(self, runtime: Runtime) -> bool:
        """Count an error; return False if it must be logged as well."""
        self._errors += 1
        if self._errors > 1:
            return True
        runtime.spawn(self._flush_later(), f"errors {self.consolidation.pattern.pattern}")
        return not self.consolidation.show_first

    def flush(self) -> None:
        """Log the count, unless it is a single error that was logged already, and reset it."""
        errors, self._errors = self._errors, 0
        if errors > 1 or (errors == 1 and not self.consolidation.show_first):
            _log.log(
                self.consolidation.level,
                "plugin/errors: %d errors like '%s' occurred in last %s",
                errors,
                self.consolidation.pattern.pattern,
                duration_to_text(self.consolidation.period),
            )

    async def _flush_later(self) -> None:
        await sleep(self.consolidation.period)
        self.flush()
