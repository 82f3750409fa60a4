"""Put a class of one's own into the chain.

Path: step 5, below `cache` and above all sources of answers, so that it can answer, change or pass on what they would.
Source: our own; CoreDNS has plugins of one's own only when it is compiled.
Rule 1: what a user's handler raises is SERVFAIL and a line in the log, never a dead server; so is a reply that is none,
        and one that does not come in time.  What handlers below raise is theirs, and goes through as it is.
Rule 2: it always runs in a task, so it may wait, and asyncio's timeouts work in it.
Rule 3: several directives of a block are several handlers, in the order of the file.
Rule 4: the names in __all__ are what users import; they stay.
Cacheable: only if every class in the block says so, since only a class knows what its answers depend on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self, cast

from hsdns.chain import Next, Request
from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token, did_you_mean
from hsdns.metrics import Counter, Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.python.module import describe, load
from hsdns.wire.iana import Rcode, RRType, type_from_text, type_to_text
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_from_text

__all__ = [
    "RR",
    "CorefileError",
    "Line",
    "Name",
    "Next",
    "Options",
    "Query",
    "RRType",
    "Rcode",
    "Reply",
    "Request",
    "Runtime",
    "Token",
    "UserHandler",
    "record",
]

_log = logging.getLogger("hsdns.plugin.python")

DEFAULT_TIMEOUT: Final = 10.0  # seconds; `forward` below gives up after 5


@dataclass(frozen=True, slots=True)
class Options:
    """What a Corefile says to a class.

    `args` are the words after MODULE:CLASS, `lines` the words of each line of the body, `zones` those of the server
    block.  `directive` has the same words with their places, for a CorefileError that points at one.
    """

    args: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    zones: tuple[Name, ...]
    directive: Directive


class UserHandler:
    """What a class of one's own derives from; only handle() must be there.

    `timeout` is how long a query may take in it and all that is below, in seconds.  `cacheable` says that a question
    which it passes on is passed on unchanged for ever, or is changed in a way that nothing but the question decides;
    then answers of `kubernetes` may be stored in the answer table, and are given without asking it again.
    """

    cacheable: bool = False
    timeout: float = DEFAULT_TIMEOUT

    def __init__(self, options: Options) -> None:
        """Read the options; raise ValueError with a sentence, or a CorefileError.  No sockets, no waiting."""
        self.options = options

    async def start(self, runtime: Runtime) -> None:
        """Begin what runs beside the queries; what this raises keeps the server from starting."""

    async def stop(self) -> None:
        """End it; called also when start() failed."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer, or return what `next(request)` answers, changed or not."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether /ready may say yes."""
        return True

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Names in a zone at or below which it may answer; None, the default, for any.  Used if it is cacheable."""
        return None


def record(request: Request, ttl: int, rrtype: str, rdata: str) -> RR:
    """Make a record of the asked name from text such as `A`, `192.0.2.1`; raise ValueError."""
    number = type_from_text(rrtype)
    return RR(request.query.qname, number, ttl, rdata_from_text(number, rdata))


class Python(Plugin):
    """The handlers of a block's `python` directives, as one link of its chain."""

    name: ClassVar[str] = "python"
    waits: ClassVar[bool] = True

    def __init__(self, guards: Sequence[_Guard]) -> None:
        self._guards = tuple(guards)
        self.cacheable = all(guard.user.cacheable for guard in guards)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `python MODULE:CLASS [ARGS...]` and a body of any lines; load the modules, make the objects."""
        return cls([_Guard.of(directive, block) for directive in directives])

    async def start(self, runtime: Runtime) -> None:
        """Start the handlers, in file order."""
        faults = errors(runtime.metrics)
        for guard in self._guards:
            await guard.start(runtime, faults)

    async def stop(self) -> None:
        """Stop those that began to start, each whatever the others raise."""
        for guard in self._guards:
            await guard.stop()

    def ready(self) -> bool:
        """Whether all of them are."""
        return all(guard.ready() for guard in self._guards)

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """The names that any of them may answer."""
        found: list[Name] = []
        for guard in self._guards:
            names = guard.names_answered_first(zone)
            if names is None:
                return None
            found += names
        return tuple(found)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Ask the first one; its `next` is the second one, and so on."""
        following = next
        for guard in reversed(self._guards):
            following = guard.above(following)
        return await following(request)


class _Guard:
    """A user's handler, and what stands between its faults and the server."""

    def __init__(self, user: UserHandler, shown: str, position: Position) -> None:
        self.user = user
        self.shown = shown
        self._position = position
        self._began = False
        self._faults: Counter | None = None

    @classmethod
    def of(cls, directive: Directive, block: Block) -> Self:
        """Load the class and make the object; raise CorefileError."""
        if not directive.args:
            raise CorefileError(
                directive.name.position,
                '"python" takes MODULE:CLASS [ARGS...], found nothing after it',
            )
        token, *args = directive.args
        made = _class_of(token)
        lines = tuple(
            (line.name.text, *(word.text for word in line.args)) for line in directive.lines
        )
        options = Options(tuple(word.text for word in args), lines, block.zones, directive)
        try:
            user = made(options)
        except CorefileError:
            raise
        except (Exception, SystemExit) as error:
            said = str(error) if type(error) is ValueError else describe(error)
            raise CorefileError(
                token.position, f'"{token.text}" does not take its options: {said}'
            ) from error
        seconds = cast("object", user.timeout)
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise CorefileError(
                token.position,
                f'"{token.text}" has timeout {seconds!r}; give a number of seconds above 0',
            )
        return cls(user, token.text, token.position)

    async def start(self, runtime: Runtime, faults: Counter) -> None:
        """Start the user's handler; raise CorefileError for whatever it raises."""
        self._faults = faults
        self._began = True
        try:
            await self.user.start(runtime)
        except CorefileError:
            raise
        except (Exception, SystemExit) as error:
            raise CorefileError(
                self._position, f'"{self.shown}" does not start: {describe(error)}'
            ) from error

    async def stop(self) -> None:
        """Stop it, if it began to start."""
        if not self._began:
            return
        self._began = False
        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        try:
            await self.user.stop()
        except asyncio.CancelledError:
            if task is not None and task.cancelling() > cancelled:
                raise
            # Nobody has cancelled us: it has cancelled a task of its own and waited for it.
        except (Exception, SystemExit) as error:
            _log.error("plugin/python: %s does not stop cleanly: %s", self.shown, describe(error))

    def ready(self) -> bool:
        """Ask it; what raises is not ready."""
        try:
            return bool(self.user.ready())
        except (Exception, SystemExit) as error:
            _log.error("plugin/python: %s cannot say if ready: %s", self.shown, describe(error))
            return False

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Ask it; what raises may answer any name."""
        try:
            names = self.user.names_answered_first(zone)
            return None if names is None else tuple(names)
        except (Exception, SystemExit) as error:
            _log.error("plugin/python: %s cannot say its names: %s", self.shown, describe(error))
            return None

    def above(self, following: Next) -> Next:
        """Make a link of the chain that asks the user's handler."""

        async def link(request: Request) -> Reply:
            return await self._ask(request, following)

        return link

    async def _ask(self, request: Request, following: Next) -> Reply:
        below: list[BaseException] = []

        async def pass_on(request: Request) -> Reply:
            try:
                return await following(request)
            except BaseException as error:
                below.append(error)
                raise

        limit = asyncio.timeout(self.user.timeout)
        try:
            async with limit:
                # What it really returns nobody has checked.
                reply = cast("object", await self.user.handle(request, pass_on))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the server ends
                raise
            return self._fail(request, "raised", error)
        except TimeoutError as error:
            if limit.expired():
                return self._fail(request, f"had no reply after {self.user.timeout:g}s")
            return self._recover(request, error, below)
        # SystemExit would end the loop, and with it the server.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return self._recover(request, error, below)
        if not isinstance(reply, Reply):
            return self._fail(request, f"returned {type(reply).__name__}, not a Reply")
        return reply

    def _recover(self, request: Request, error: BaseException, below: list[BaseException]) -> Reply:
        if isinstance(error, Exception) and any(error is each for each in below):
            raise error
        return self._fail(request, "raised", error)

    def _fail(self, request: Request, what: str, error: BaseException | None = None) -> Reply:
        query = request.query
        asked = f"{query.qname.to_text()} {type_to_text(query.qtype)}"
        said = f"{what} {describe(error)}" if error is not None else what
        _log.error("plugin/python: %s %s, asked for %s", self.shown, said, asked)
        if error is not None:
            _log.debug("plugin/python: %s raised this", self.shown, exc_info=error)
        if self._faults is not None:
            self._faults.inc((self.shown,))
        return unwritten(Rcode.SERVFAIL)


def errors(metrics: Registry) -> Counter:
    """Return the counter of queries that a handler failed to answer."""
    return metrics.counter(
        "hsdns_python_errors_total",
        "Queries that a handler of the python plugin raised at, did not answer in time or gave no Reply to.",
        ("handler",),
    )


def _class_of(token: Token) -> type[UserHandler]:
    """The class that MODULE:CLASS names; raise CorefileError."""
    module_name, colon, class_name = token.text.partition(":")
    if (
        not colon
        or not class_name.isidentifier()
        or not all(part.isidentifier() for part in module_name.split("."))
    ):
        raise CorefileError(
            token.position, f'"{token.text}" is not MODULE:CLASS; write one such as preview:Preview'
        )
    try:
        module = load(module_name, Path(token.position.file).parent)
    except ImportError as error:
        raise CorefileError(
            token.position, f'cannot load the module of "{token.text}": {error}'
        ) from error
    found = vars(module).get(class_name)
    if found is None:
        known = [name for name, value in vars(module).items() if _is_handler(value)]
        raise CorefileError(
            token.position,
            f"module {module_name} has no class {class_name}{did_you_mean(class_name, known)}",
        )
    if not _is_handler(found):
        raise CorefileError(
            token.position,
            f'"{token.text}" is not a class derived from hsdns.plugins.python.UserHandler',
        )
    made: type[UserHandler] = found
    if made.handle is UserHandler.handle:
        raise CorefileError(
            token.position, f'"{token.text}" has no method handle(request, next); write one'
        )
    return made


def _is_handler(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, UserHandler) and value is not UserHandler
