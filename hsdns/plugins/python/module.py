"""Find the class that a `python` directive names, and load its module.

Path: plugins/python.py calls load() while the Corefile is set up.
Rule 1: a file MODULE.py beside the Corefile wins.  It is read anew at every setup, so a reload takes what was edited,
        and a setup that fails leaves the module that was there.  Anything else is imported as usual, once.
Rule 2: such a file never takes the name of another module: the server itself may import that one later.
Rule 3: nothing is written, no `__pycache__` either: the folder is mostly a read-only ConfigMap.
Rule 4: whatever the module raises becomes an ImportError with a sentence that names file and line.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_own_folders: set[str] = set()  # those that stand on sys.path because of us


def load(name: str, folder: Path) -> ModuleType:
    """Load a module for a Corefile in `folder`; raise ImportError.

    The folder goes to the end of sys.path, so that the module finds its neighbours and nobody else finds them first.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
        _own_folders.add(place)
    importlib.invalidate_caches()  # the file may be newer than what the finders remember
    file = Path(place, f"{name}.py")
    try:
        if "." not in name and file.is_file():
            _refuse_taken(name, file)
            return _load_file(name, file)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ImportError(
                f"there is no {file.name} in {place}, and no module {name} is installed"
                if "." not in name
                else f"there is no module {error.name} in {place}, and none is installed"
            ) from error
        raise ImportError(describe(error)) from error
    except (Exception, SystemExit) as error:
        raise ImportError(describe(error)) from error


def _load_file(name: str, file: Path) -> ModuleType:
    before = sys.modules.get(name)
    spec = spec_from_file_location(name, file)
    assert spec is not None, "a file that ends in .py has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _refuse_taken(name: str, file: Path) -> None:
    """Raise _Taken where a module of this name is elsewhere."""
    there = sys.modules.get(name)
    if there is not None:
        origin = getattr(there, "__file__", None)
        if origin is not None and (origin == str(file) or os.path.dirname(origin) in _own_folders):
            return
        raise _Taken(name, file, origin)
    if name in sys.stdlib_module_names:
        raise _Taken(name, file, None)
    found = PathFinder.find_spec(name, [each for each in sys.path if each not in _own_folders])
    if found is not None and found.origin is not None and Path(found.origin).resolve() != file:
        raise _Taken(name, file, found.origin)


class _Taken(Exception):
    """Another module has the name."""

    def __init__(self, name: str, file: Path, origin: str | None) -> None:
        super().__init__(
            f"{file} has the name of another module ({origin or 'of Python itself'}); "
            f"give the file a name of its own, such as {name}_dns.py"
        )


def describe(error: BaseException) -> str:
    """What was raised, on one line: class, message, and the place that it came from."""
    if isinstance(error, _Taken):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    said = traceback.format_exception_only(error)[0].strip().partition("\n")[0]
    # The innermost place in a file that exists: not `<frozen importlib>`, which runs a module.
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{each.filename}:{each.lineno}" for each in frames if os.path.isabs(each.filename)]
    return f"{said} ({places[-1]})" if places else said
