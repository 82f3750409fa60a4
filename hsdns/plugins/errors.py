"""Log what went wrong while a query was answered.

Path: step 5, outside of everything that may fail, just below `prometheus`; it looks at replies on their way back.
Source: CoreDNS 1.14.7 plugin/errors.
Rule 1: it logs `Reply.error`, the sentence of a handler; an rcode alone, SERVFAIL too, is no error.
Rule 2: an error that matches a `consolidate` pattern is counted instead, and the count is logged when the pattern's
        period has passed since the first one; the first pattern that matches takes the error.
Rule 3: `stacktrace` is for what handlers raise: server/lifecycle.py tells query.py, which logs it.
Rule 4: cacheable, since it changes no reply and a reply with an error is stored nowhere.
"""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.arguments import optional_argument
from hsdns.corefile.pattern import Pattern, read_pattern
from hsdns.corefile.properties import (
    Property,
    duration,
    duration_to_text,
    flag,
    only_once,
    read_properties,
)
from hsdns.corefile.tree import CorefileError, Directive, Line, did_you_mean
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
    """What a `consolidate` line says; `period` in seconds."""

    period: float
    pattern: Pattern
    level: int = logging.ERROR
    show_first: bool = False


def read_consolidation(line: Line) -> Consolidation:
    """Read `consolidate DURATION REGEXP [LEVEL] [show_first]`."""
    if not 2 <= len(line.args) <= 4:
        raise CorefileError(
            line.name.position,
            f'property "consolidate" takes DURATION REGEXP [LEVEL] [show_first], found {len(line.args)} arguments',
        )
    period = duration()(line.args[0])
    expression = line.args[1]
    pattern = read_pattern(expression)
    level, show_first = None, False
    for token in line.args[2:]:
        if token.text == "show_first":
            show_first = True
        elif token.text not in LEVELS:
            known = (*LEVELS, "show_first")
            raise CorefileError(
                token.position,
                f'"{token.text}" is not one of: {", ".join(known)}{did_you_mean(token.text, known)}',
            )
        elif level is not None:
            raise CorefileError(token.position, f'"{token.text}" is a second level; give one')
        elif show_first:
            raise CorefileError(
                token.position, f'level "{token.text}" must stand before "show_first"'
            )
        else:
            level = LEVELS[token.text]
    return Consolidation(period, pattern, logging.ERROR if level is None else level, show_first)


class Errors(Plugin):
    """Logs the errors of the handlers below it."""

    name: ClassVar[str] = "errors"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "stacktrace": Property(flag, default=False),
        "consolidate": Property(
            read_consolidation, syntax="DURATION REGEXP [LEVEL] [show_first]", repeat="collect"
        ),
    }

    def __init__(
        self, consolidations: Sequence[Consolidation] = (), *, stacktrace: bool = False
    ) -> None:
        self.stacktrace = stacktrace  # query.py logs the stack of what a handler raised
        self._tallies = tuple(_Tally(what) for what in consolidations)
        self._runtime: Runtime | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `errors [stdout]`; the word changes nothing, there is no other place to log to."""
        token = optional_argument(only_once(directives))
        if token is not None and token.text != "stdout":
            raise CorefileError(
                token.position, f'cannot log errors to "{token.text}"; leave it out or say "stdout"'
            )
        options = read_properties(directives, cls.PROPERTIES)
        return cls(options["consolidate"], stacktrace=options["stacktrace"])

    async def start(self, runtime: Runtime) -> None:
        """Begin to consolidate; before that and after stop() each error is logged by itself."""
        self._runtime = runtime

    async def stop(self) -> None:
        """Log what was counted and not yet said."""
        self._runtime = None
        for tally in self._tallies:
            tally.flush()

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass everything on; log the error of the reply, if it has one."""
        reply = await next(request)
        if reply.error is not None:
            self._note(request, reply.rcode, reply.error)
        return reply

    def _note(self, request: Request, rcode: int, error: str) -> None:
        level = logging.ERROR
        for tally in self._tallies:
            if tally.what.pattern.search(error):
                if self._runtime is not None and tally.count(self._runtime):
                    return
                level = tally.what.level
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


class _Tally:
    """The errors of one pattern since the first one of its period."""

    def __init__(self, what: Consolidation) -> None:
        self.what = what
        self._errors = 0

    def count(self, runtime: Runtime) -> bool:
        """Count an error; False where it is to be logged at once all the same."""
        self._errors += 1
        if self._errors > 1:
            return True
        runtime.spawn(self._flush_later(), f"errors {self.what.pattern.pattern}")
        return not self.what.show_first

    def flush(self) -> None:
        """Say how many there were, but for a single one that was shown, and begin anew."""
        errors, self._errors = self._errors, 0
        if errors > 1 or (errors == 1 and not self.what.show_first):
            _log.log(
                self.what.level,
                "plugin/errors: %d errors like '%s' occurred in last %s",
                errors,
                self.what.pattern.pattern,
                duration_to_text(self.what.period),
            )

    async def _flush_later(self) -> None:
        await sleep(self.what.period)
        self.flush()
