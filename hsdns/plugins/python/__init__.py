"""Runs the user's own Python handlers in the plugin chain.

Path: step 5, after `cache` and before all sources of answers, so that it can answer, change a reply or pass on.
Source: our own; CoreDNS has external plugins only at compile time.
Rule 1: an exception in a handler, a timeout, and a result that cannot be sent are answered with SERVFAIL, logged with
        the innermost line of the user's own, and counted.  Exceptions from later plugins pass unchanged.
Rule 2: each query runs in a task of its own, so a handler may wait, and asyncio's timeouts work.
Rule 3: several directives of a block are several handlers, in file order.
Rule 4: the names in __all__ are the stable interface for users.
Rule 5: without code (-no-code) no module is loaded, and every query is answered as after an exception.
Rule 6: the log names a handler that blocks the event loop for longer than MAX_TURN, at most once in LOG_PAUSE.
Cacheable: only if all classes of the block are `cacheable`.

The check of a user's reply is here, because the code that encodes it later does not know the handler:
Rule: it rejects only replies that cannot be sent, and addresses of a wrong length, which no client can read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CoroutineType, FrameType
from typing import ClassVar, Final, Self, cast

from hsdns.chain import Next, Request, all_names
from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token, did_you_mean
from hsdns.metrics import Counter
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.python.module import OwnCode, SourceFile, Turns, load, place_of, source_file
from hsdns.turns import unless_cancelled
from hsdns.wire.decode import ADDRESS_LENGTHS
from hsdns.wire.iana import Rcode, RRType, type_from_text, type_to_text
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_from_text

# The range of the field; clients treat more than 2**31 - 1 as 0 (RFC 2181 section 8).
MAX_TTL: Final = 2**32 - 1
MAX_RCODE: Final = 0xFFF  # with the extended bits of EDNS
MAX_LENGTH: Final = 0xFFFF  # octets of RDATA


def fault(result: object) -> str:
    """Return the error in the result of a handler, as the end of a sentence; "" if there is none."""
    if not isinstance(result, Reply):
        return f"returned {type(result).__name__}, not a Reply"
    if not _is_number(result.rcode, MAX_RCODE):
        return f"returned a Reply with rcode {result.rcode!r}; write one such as Rcode.NXDOMAIN"
    for name in ("answer", "authority", "additional"):
        section = cast("object", getattr(result, name))
        if not isinstance(section, tuple | list) or isinstance(section, RR):
            return (
                f"returned a Reply whose {name} is {type(section).__name__}, not a tuple of records"
            )
        for number, record in enumerate(section):
            wrong = _fault_of_record(record)
            if wrong:
                return f"returned a Reply whose {name}[{number}] {wrong}"
    return ""


def ttl_fault(ttl: object) -> str:
    """Return the error in a TTL, "" if there is none."""
    if _is_number(ttl, MAX_TTL):
        return ""
    return f"has TTL {ttl!r}; a TTL is a whole number of seconds from 0 to {MAX_TTL}"


def _fault_of_record(record: object) -> str:
    if not isinstance(record, tuple) or len(record) != len(RR._fields):
        return f"is {type(record).__name__}, not a record; make one with record()"
    owner, rrtype, ttl, rdata, rrclass = record
    if not isinstance(owner, Name):
        return f"has the owner {owner!r}, not a Name; write Name.from_text(...)"
    if not _is_number(rrtype, 0xFFFF) or not _is_number(rrclass, 0xFFFF):
        return f"has type {rrtype!r} and class {rrclass!r}; both are numbers, such as RRType.A"
    if not isinstance(rdata, bytes | bytearray) or len(rdata) > MAX_LENGTH:
        return f"has rdata of {type(rdata).__name__}, not octets; make the record with record()"
    wanted = ADDRESS_LENGTHS.get(rrtype)
    if wanted is not None and len(rdata) != wanted:
        return (
            f"is of type {type_to_text(rrtype)}, whose address has {wanted} octets, and has {len(rdata)}; "
            "make the record with record()"
        )
    return ttl_fault(ttl)


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and 0 <= value <= most


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

DEFAULT_TIMEOUT: Final = 10.0  # seconds; `forward` later in the chain gives up after 5
MAX_TURN: Final = 0.1  # seconds
LOG_PAUSE: Final = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The contents of a directive.

    `args` are the words after MODULE:CLASS, `lines` the words of each line of the body, `zones` those of the server
    block.  `directive` has the same words with their positions, for a CorefileError that refers to one.
    """

    args: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    zones: tuple[Name, ...]
    directive: Directive


class UserHandler:
    """The base class of handlers; only handle() is required.

    `timeout` is the maximum time in seconds that this and the later plugins may take for a query.  `cacheable`
    guarantees that a query which it passes on once is always passed on, and that its changes depend only on the
    question; answers of `kubernetes` are then stored in the answer table and sent without calling it again.
    """

    cacheable: bool = False
    timeout: float = DEFAULT_TIMEOUT

    def __init__(self, options: Options) -> None:
        """Read the options; raise ValueError with a sentence, or CorefileError.  Must not open files or sockets."""
        self.options = options

    async def start(self, runtime: Runtime) -> None:
        """Start background work; an exception aborts the startup of the server, or the reload."""

    async def stop(self) -> None:
        """Stop background work; also called if start() failed."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer a query, or return the reply of `next(request)`, changed or not."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether the handler is ready, for /ready."""
        return True

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return the names in a zone at or below which it may answer, None for any.  Used only if cacheable."""
        return None


def record(request: Request, ttl: int, rrtype: str, rdata: str) -> RR:
    """Create a record for the queried name from text such as `A`, `192.0.2.1`; raise ValueError or TypeError."""
    wrong = ttl_fault(ttl)
    if wrong:
        raise ValueError(f"the record {wrong}")
    # A user's module need not follow the annotations.
    if not isinstance(cast("object", rrtype), str):
        raise TypeError(f'the record\'s type is {rrtype!r}; write it as text, such as "A"')
    if not isinstance(cast("object", rdata), str):
        raise TypeError(f"the record's data is {rdata!r}; write it as text")
    number = type_from_text(rrtype)
    return RR(request.query.qname, number, ttl, rdata_from_text(number, rdata))


class Python(Plugin):
    """The handlers of a block's `python` directives, as one plugin of its chain."""

    waits: ClassVar[bool] = True

    def __init__(self, handlers: Sequence[_Wrapper]) -> None:
        self._handlers = tuple(handlers)
        self.cacheable = all(handler.user.cacheable for handler in handlers)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `python MODULE:CLASS [ARGS...]` and a body of any lines; load the modules and create the objects."""
        return cls([_Wrapper.from_directive(directive, block) for directive in directives])

    async def start(self, runtime: Runtime) -> None:
        """Start the handlers, in file order."""
        faults = runtime.metrics.counter("hsdns_python_errors_total", ("handler",))
        for handler in self._handlers:
            await handler.start(runtime, faults)

    async def stop(self) -> None:
        """Stop the handlers whose start was called, even if others raise."""
        for handler in self._handlers:
            await handler.stop()

    def ready(self) -> bool:
        """Whether all handlers are ready."""
        return all(handler.ready() for handler in self._handlers)

    def files_changed(self) -> bool:
        """Whether the file of a handler has changed since it was loaded."""
        files = [handler.source for handler in self._handlers if handler.source is not None]
        changed = {file.has_changed() for file in files}  # checked for each handler
        return True in changed

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return the names that any handler may answer."""
        return all_names(handler.names_answered_first(zone) for handler in self._handlers)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Call the first handler; its `next` is the second one, and so on."""
        following = next
        for handler in reversed(self._handlers):
            following = handler.followed_by(following)
        return await following(request)


class _Wrapper:
    """Wraps a user's handler, and handles its errors."""

    def __init__(
        self, user: UserHandler, shown: str, position: Position, source: SourceFile | None
    ) -> None:
        self.user = user
        self.shown = shown
        self.source = source
        self._position = position
        self._is_started = False
        self._faults: Counter | None = None
        self._clock: Callable[[], float] = float  # 0.0 until it is started
        self._named: float | None = None  # when the log last named it for blocking the loop
        self._own = OwnCode(type(user).__module__)
        code = getattr(type(user).handle, "__code__", None)
        self._begins = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""

    @classmethod
    def from_directive(cls, directive: Directive, block: Block) -> Self:
        """Load the class and create the object; raise CorefileError."""
        if not directive.args:
            raise directive.error('"python" takes MODULE:CLASS [ARGS...], found nothing after it')
        token, *args = directive.args
        made, source = _class_of(token, block)
        lines = tuple(
            (line.name.text, *(word.text for word in line.args)) for line in directive.lines
        )
        options = Options(tuple(word.text for word in args), lines, block.zones, directive)
        try:
            user = made(options)
        except CorefileError:
            raise
        except (Exception, SystemExit) as error:
            own = OwnCode(made.__module__)
            place = own.place(error.__traceback__)
            reason = f"{error} ({place})" if type(error) is ValueError else own.describe(error)
            raise token.error(f'"{token.text}" rejects its options: {reason}') from error
        seconds = cast("object", user.timeout)
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise token.error(
                f'"{token.text}" has timeout {seconds!r}; give a number of seconds above 0'
            )
        return cls(user, token.text, token.position, source)

    async def start(self, runtime: Runtime, faults: Counter) -> None:
        """Start the user's handler; raise CorefileError for any exception."""
        self._faults = faults
        self._clock = runtime.clock
        self._is_started = True
        try:
            await self.user.start(runtime)
        except CorefileError:
            raise
        except (Exception, SystemExit) as error:
            raise self._position.error(
                f'"{self.shown}" failed to start: {self._own.describe(error)}'
            ) from error

    async def stop(self) -> None:
        """Stop the user's handler, if its start was called."""
        if not self._is_started:
            return
        self._is_started = False
        try:
            with unless_cancelled():
                await self.user.stop()
        except (Exception, SystemExit) as error:
            self._log_error("%s failed to stop: %s", error)

    def ready(self) -> bool:
        """Whether the user's handler is ready; not if it raises."""
        try:
            return bool(self.user.ready())
        except (Exception, SystemExit) as error:
            self._log_error("ready() of %s raised %s", error)
            return False

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return the names that the user's handler may answer; None, which is any name, if it raises."""
        try:
            names = self.user.names_answered_first(zone)
            return None if names is None else tuple(names)
        except (Exception, SystemExit) as error:
            self._log_error("names_answered_first() of %s raised %s", error)
            return None

    def _log_error(self, sentence: str, error: BaseException) -> None:
        _log.error(f"plugin/python: {sentence}", self.shown, self._own.describe(error))

    def followed_by(self, following: Next) -> Next:
        """Return a function that calls the user's handler with `following` as its `next`."""
        return lambda request: self._handle(request, following)

    async def _handle(self, request: Request, following: Next) -> Reply:
        passed: list[BaseException] = []  # exceptions from later plugins
        given: list[Reply] = []  # their replies

        async def pass_on(request: Request) -> Reply:
            try:
                reply: Reply = await turns.elsewhere(following(request))
            except BaseException as error:
                passed.append(error)
                raise
            given.append(reply)
            return reply

        limit = asyncio.timeout(self.user.timeout)
        frame: FrameType | None = None
        turns = Turns(self._clock)
        try:
            async with limit:
                # A user's handle() need not follow its annotation.
                call = cast("object", self.user.handle(request, pass_on))
                if isinstance(call, CoroutineType):
                    frame = call.cr_frame  # kept, because it has the line after the call has ended
                    turns = Turns(self._clock, frame)
                    reply = await turns.own(call)
                else:
                    reply = await call  # type: ignore[misc]  # raises TypeError if it is not awaitable
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the server stops
                raise
            return self._fail(request, "raised", error)
        except TimeoutError as error:
            if limit.expired():
                cancelled = error.__cause__.__traceback__ if error.__cause__ is not None else None
                place = self._own.place(cancelled) or self._begins
                return self._fail(request, f"did not reply within {self.user.timeout:g}s ({place})")
            return self._recover(request, error, passed)
        # SystemExit would end the event loop, and with it the server.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return self._recover(request, error, passed)
        finally:
            if turns.longest > MAX_TURN:
                self._name_blocking(request, turns)
        wrong = "" if any(reply is each for each in given) else fault(reply)
        if wrong:
            return self._fail(request, f"{wrong} ({place_of(frame) if frame else self._begins})")
        return cast("Reply", reply)

    def _recover(
        self, request: Request, error: BaseException, passed: list[BaseException]
    ) -> Reply:
        if isinstance(error, Exception) and any(error is each for each in passed):
            raise error
        return self._fail(request, "raised", error)

    def _fail(self, request: Request, what: str, error: BaseException | None = None) -> Reply:
        failure = what
        if error is not None:
            failure = f"{what} {self._own.describe(error, self._begins)}"
        _log.error("plugin/python: %s %s, query: %s", self.shown, failure, _question(request))
        if error is not None:
            _log.debug("plugin/python: traceback of %s", self.shown, exc_info=error)
        if self._faults is not None:
            self._faults.inc((self.shown,))
        return unwritten(Rcode.SERVFAIL)

    def _name_blocking(self, request: Request, turns: Turns) -> None:
        """Log that the handler has held the event loop, if that was not logged just before."""
        now = self._clock()
        if self._named is not None and now - self._named < LOG_PAUSE:
            return
        self._named = now
        _log.warning(
            "plugin/python: %s blocked the event loop for %.2f s (before %s), query: %s; the server stands still "
            "meanwhile: use await, or asyncio.to_thread() for what cannot be awaited",
            self.shown,
            turns.longest,
            turns.place,
            _question(request),
        )


def _question(request: Request) -> str:
    return f"{request.query.qname.to_text()} {type_to_text(request.query.qtype)}"


class _Unloaded(UserHandler):
    """Stands for a class whose module must not run."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        raise RuntimeError("its module is not loaded, because of --no-code")


def _class_of(token: Token, block: Block) -> tuple[type[UserHandler], SourceFile | None]:
    """Return the class that MODULE:CLASS names, and the file to watch; raise CorefileError."""
    module_name, _, class_name = token.text.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise token.error(f'"{token.text}" is not MODULE:CLASS; write one such as preview:Preview')
    if not block.runs_code:
        block.warn(f'{token.position}: "{token.text}" is not checked, because of --no-code')
        return _Unloaded, None
    try:
        module = load(module_name, Path(token.position.file).parent)
    except ImportError as error:
        raise token.error(f'cannot load the module of "{token.text}": {error}') from error
    found = vars(module).get(class_name)
    if found is None:
        known = [name for name, value in vars(module).items() if _is_handler(value)]
        raise token.error(
            f"module {module_name} has no class {class_name}{did_you_mean(class_name, known)}"
        )
    if not _is_handler(found):
        raise token.error(
            f'"{token.text}" is not a class derived from hsdns.plugins.python.UserHandler'
        )
    made: type[UserHandler] = found
    if made.handle is UserHandler.handle:
        raise token.error(f'"{token.text}" has no method handle(request, next); write one')
    return made, source_file(module)


def _is_handler(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, UserHandler) and value is not UserHandler
