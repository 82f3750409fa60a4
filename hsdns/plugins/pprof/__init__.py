"""Serves runtime profiles over HTTP.

Path: beside the queries; server/http.py calls the page, profile.py takes CPU profiles.
Source: CoreDNS 1.14.7 plugin/pprof and Go's net/http/pprof, which has the same paths.
Rule 1: profiling has no cost until a profile is requested.
Rule 2: one profile can run at a time, and it ends with its configuration.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qs

from hsdns.corefile.keys import listen_address
from hsdns.corefile.properties import Property, only_once, read_properties
from hsdns.corefile.tree import Directive
from hsdns.http_page import HttpPage
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.pprof.profile import folded, sample, stack_of, to_pprof

DEFAULT_ADDRESS: Final = "localhost:6053"
PATH: Final = "/debug/pprof"
PROFILE_SECONDS: Final = 30.0  # as in Go
HEAP_SECONDS: Final = 10.0
MAX_SECONDS: Final = 300.0
HEAP_LINES: Final = 100
_TEXT: Final = "text/plain; charset=utf-8"
_BINARY: Final = "application/octet-stream"
INDEX: Final = f"""\
{PATH}/

cmdline                    the command line
goroutine                  the stacks of all tasks and threads
heap?seconds={HEAP_SECONDS:g}            memory allocated in that time and still in use, by source line
profile?seconds={PROFILE_SECONDS:g}         CPU profile for: go tool pprof http://ADDRESS{PATH}/profile
profile?seconds={PROFILE_SECONDS:g}&debug=1 the same as folded stacks in milliseconds
"""

Page = tuple[int, str, bytes]
_missing: Final[Page] = (404, _TEXT, b"Unknown profile\n")


class Pprof(Plugin):
    """Serves the pages below /debug/pprof/."""

    name: ClassVar[str] = "pprof"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {}

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        self.address = address
        self._stopped = threading.Event()
        self._in_use = threading.Lock()

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `pprof [ADDRESS]`."""
        directive = only_once(directives)
        address = listen_address(directive, DEFAULT_ADDRESS)
        for line in directive.lines:
            if line.name.text == "block":
                raise line.error(
                    'property "block" of pprof is not supported: Python does not record which threads wait; remove it'
                )
        read_properties(directives, cls.PROPERTIES)
        return cls(address)

    async def start(self, runtime: Runtime) -> None:
        """Serve the pages."""
        self._runtime = runtime
        profiles = ProfilePage(self)
        page = HttpPage(profiles, is_slow=True, prepare=profiles.prepare)
        runtime.serve_http(self.address, {PATH: page, f"{PATH}/": page})

    async def stop(self) -> None:
        """End a running profile; its client gets what was collected."""
        self._stopped.set()

    def answer(self, name: str, options: dict[str, str], stacks: str) -> Page:
        """Return a page; blocks for the `seconds` of a profile."""
        if name == "":
            return 200, _TEXT, INDEX.encode()
        if name == "cmdline":
            return 200, _TEXT, "\0".join(sys.orig_argv).encode()
        if name == "goroutine":
            return 200, _TEXT, stacks.encode()
        take = {"profile": self._profile, "heap": self._heap}.get(name)
        return _missing if take is None else self._take(take, options)

    def _take(self, take: Callable[[dict[str, str]], Page], options: dict[str, str]) -> Page:
        if not self._in_use.acquire(blocking=False):
            return 500, _TEXT, b"another profile is running; retry later\n"
        try:
            return take(options)
        except ValueError as error:
            return 400, _TEXT, f"{error}\n".encode()
        finally:
            self._in_use.release()

    def _profile(self, options: dict[str, str]) -> Page:
        seconds = _seconds(options, PROFILE_SECONDS)
        began = self._runtime.wall()
        profile = sample(seconds, self._stopped.wait, self._runtime.clock)
        if options.get("debug", "0") != "0":
            return 200, _TEXT, folded(profile).encode()
        return 200, _BINARY, to_pprof(profile, began)

    def _heap(self, options: dict[str, str]) -> Page:
        seconds = _seconds(options, HEAP_SECONDS)
        if tracemalloc.is_tracing():
            return 500, _TEXT, b"tracemalloc is already in use\n"
        tracemalloc.start()
        try:
            self._stopped.wait(seconds)
            gc.collect()
            found = tracemalloc.take_snapshot().statistics("lineno")
        finally:
            tracemalloc.stop()
        lines = [f"{sum(each.size for each in found)} bytes in {seconds:g} s\n"]
        for each in found[:HEAP_LINES]:
            place = each.traceback[0]
            lines.append(f"{each.size:>12} bytes {each.count:>8} blocks {place}\n")
        return 200, _TEXT, "".join(lines).encode()


class ProfilePage:
    """The page /debug/pprof/ and all below it."""

    def __init__(self, pprof: Pprof) -> None:
        self._pprof = pprof
        self._stacks = ""

    def prepare(self) -> None:
        """Collect the stacks, in the event loop's thread, because asyncio.all_tasks() needs the running loop."""
        self._stacks = _stacks()

    def __call__(self, path: str) -> Page:
        """Answer `/debug/pprof/NAME?OPTION=VALUE`."""
        path, _, query = path.partition("?")
        options = {name: values[-1] for name, values in parse_qs(query).items()}
        return self._pprof.answer(path.removeprefix(PATH).removeprefix("/"), options, self._stacks)


def _seconds(options: dict[str, str], default: float) -> float:
    text = options.get("seconds", "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f'invalid seconds "{text}"; give more than 0 and at most {MAX_SECONDS:g}')
    return seconds


def _stacks() -> str:
    """Return the stacks of all tasks and threads as text."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = task.get_stack()
        lines.append(f"task {task.get_name()}:\n")
        lines += [
            f"    {frame.f_code.co_qualname} {frame.f_code.co_filename}:{frame.f_lineno}\n"
            for frame in reversed(frames)
        ]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        lines.append(f"thread {names.get(ident, ident)}:\n")
        lines += [f"    {call.function} {call.file}:{call.line}\n" for call in stack_of(frame)]
    return "".join(lines)
