"""Loader of the modules that `python` directives name.

Path: plugins/python calls load() at setup.
Rule 1: a file MODULE.py in the directory of the Corefile takes precedence.  It is loaded again at every setup; if that
        fails, the previous module stays in sys.modules.  All other modules are imported in the usual way, once.
Rule 2: such a file must not have the name of another module, which the server itself may import later.
Rule 3: nothing is written, not even `__pycache__`, because the directory is usually a read-only ConfigMap.
Rule 4: any exception of the module becomes an ImportError that names the innermost line of the user's own.
"""

from __future__ import annotations

import importlib
import os
import sys
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from hsdns.plugins.python.own_code import OwnCode

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
        raise ImportError(own.describe(error)) from error
    except _Taken as error:
        raise ImportError(str(error)) from error
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
    """Raise _Taken if there is another module with this name."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
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
            f"give the file another name, such as {name}_dns.py"
        )
