"""Loader of the modules that `python` directives name.

Path: plugins/python calls load() at setup.
Rule 1: a file MODULE.py in the directory of the Corefile takes precedence.  It is loaded again at every setup; if that
        fails, the previous module stays in sys.modules.  All other modules are imported in the usual way, once.
Rule 2: such a file must not have the name of another module, which the server itself may import later.
Rule 3: nothing is written, not even `__pycache__`, because the directory is usually a read-only ConfigMap.
Rule 4: any exception of the module becomes an ImportError that names the innermost line of the user's own.

Turns measure how long a handler blocks the event loop, without the time of the plugins after it:
Rule: a turn is the time between two waits of the handler, in which the loop answers no other query.

Messages name the user's own code, not that of this server, of Python or of installed packages:
Rule: an installed package is the user's own only if the handler is in it.
"""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType, ModuleType, TracebackType, coroutine
from typing import Any, Final

import hsdns

_SERVER: Final = os.path.dirname(os.path.abspath(hsdns.__file__)) + os.sep
_LIBRARY: Final = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class OwnCode:
    """The user's own code: the handler's top-level package, and every file that is not installed."""

    def __init__(self, module_name: str) -> None:
        self._top = module_name.partition(".")[0]

    def contains(self, file: str) -> bool:
        """Whether a file is the user's own."""
        if not os.path.isabs(file) or file.startswith(_SERVER):  # `<frozen importlib>` is no file
            return False
        for folder in _INSTALLED:
            _, found, inside = file.rpartition(folder)
            if found:
                return inside.partition(os.sep)[0].removesuffix(".py") == self._top
        return not file.startswith(_LIBRARY)

    def describe(self, error: BaseException, otherwise: str = "") -> str:
        """Return an exception as one line: class, message, and the innermost own line, `(FILE:LINE)`.

        If none of the lines is the user's own, `otherwise` takes its place.
        """
        if isinstance(error, SyntaxError) and error.filename is not None:
            return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
        text = traceback.format_exception_only(error)[0].strip().partition("\n")[0]
        place = self.place(error.__traceback__) or otherwise
        return f"{text} ({place})" if place else text

    def place(self, trace: TracebackType | None) -> str:
        """Return the innermost own line of a traceback as `FILE:LINE`, "" if there is none."""
        places = [
            f"{frame.f_code.co_filename}:{line}"
            for frame, line in traceback.walk_tb(trace)
            if self.contains(frame.f_code.co_filename)
        ]
        return places[-1] if places else ""


class Turns:
    """The turns of one call; `longest` in seconds, and the `place` in the handler where that turn ended.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], frame: FrameType | None = None) -> None:
        self.longest = 0.0
        self.place = ""
        self._clock = clock
        self._frame = frame
        self._elsewhere = 0.0  # time of later plugins in the current turn

    def own(self, call: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Await the handler."""
        return _step(call, self._clock, self._begin, self._end)

    def elsewhere(self, call: Awaitable[Any]) -> Awaitable[Any]:
        """Await `next` for the handler, without counting its turns."""
        return _step(call, self._clock, lambda: None, self._exclude)

    def _begin(self) -> None:
        self._elsewhere = 0.0

    def _end(self, seconds: float) -> None:
        if seconds - self._elsewhere > self.longest:
            self.longest = seconds - self._elsewhere
            self.place = place_of(self._frame) if self._frame is not None else ""

    def _exclude(self, seconds: float) -> None:
        self._elsewhere += seconds


def place_of(frame: FrameType) -> str:
    """Return the current line of a frame, `FILE:LINE`; after the call has ended, its last line."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@coroutine
def _step(
    call: Awaitable[Any],
    clock: Callable[[], float],
    begin: Callable[[], None],
    end: Callable[[float], None],
) -> Generator[Any, Any, Any]:
    """Await a call, and report each of its turns."""
    turns = call.__await__()
    resume = partial(turns.send, None)
    while True:
        begin()
        began = clock()
        try:
            waiting = resume()
        except StopIteration as stop:
            return stop.value
        finally:
            end(clock() - began)
        try:
            sent = yield waiting
        except BaseException as error:
            resume = partial(turns.throw, error)
        else:
            resume = partial(turns.send, sent)


_own_folders: set[str] = set()  # the directories that load() has added to sys.path
_loaded: dict[str, bytes] = {}  # the digest of each file that was loaded last


class SourceFile:
    """The file that a module was loaded from, to detect changes of its content."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._digest = _loaded[path]

    def has_changed(self) -> bool:
        """Read it again; return True once for each change, so that a file that cannot be loaded is tried once."""
        try:
            digest = sha256(Path(self._path).read_bytes()).digest()
        except OSError:
            digest = b""  # loading it again reports the error
        has_changed, self._digest = digest != self._digest, digest
        return has_changed


def source_file(module: ModuleType) -> SourceFile | None:
    """Return the file of a module that is loaded again at each setup, None for one that is imported once."""
    path = module.__file__
    return SourceFile(path) if path in _loaded else None


def load(name: str, folder: Path) -> ModuleType:
    """Load a module for a Corefile in `folder`; raise ImportError.

    The folder is appended to sys.path, so that the module can import others from it, but no installed module is hidden.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
        _own_folders.add(place)
    own = OwnCode(name)
    importlib.invalidate_caches()  # the file may be newer than the finders' caches
    file = Path(place, f"{name}.py")
    is_file = "." not in name and file.is_file()
    if is_file:
        _refuse_taken(name, file)
    try:
        return _load_file(name, file) if is_file else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ImportError(
                f"there is no {file.name} in {place}, and no module {name} is installed"
                if "." not in name
                else f"there is no module {error.name} in {place}, and none is installed"
            ) from error
        raise ImportError(own.describe(error)) from error
    except (Exception, SystemExit) as error:
        raise ImportError(own.describe(error)) from error


def _load_file(name: str, file: Path) -> ModuleType:
    before = sys.modules.get(name)
    spec = spec_from_file_location(name, file)
    assert spec is not None, "a file that ends in .py has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module  # for dataclasses and pickle
    try:
        octets = file.read_bytes()
        exec(compile(octets, str(file), "exec"), module.__dict__)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    _loaded[str(file)] = sha256(octets).digest()
    return module


def _refuse_taken(name: str, file: Path) -> None:
    """Raise ImportError if there is another module with this name."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
        if origin is not None and (origin == str(file) or os.path.dirname(origin) in _own_folders):
            return
        raise _taken(name, file, origin)
    if name in sys.stdlib_module_names:
        raise _taken(name, file, None)
    found = PathFinder.find_spec(name, [each for each in sys.path if each not in _own_folders])
    if found is not None and found.origin is not None and Path(found.origin).resolve() != file:
        raise _taken(name, file, found.origin)


def _taken(name: str, file: Path, origin: str | None) -> ImportError:
    return ImportError(
        f"{file} has the name of another module ({origin or 'of Python itself'}); "
        f"give the file another name, such as {name}_dns.py"
    )
