"""Where the control socket of a server is that names none, and where such sockets are looked for.

Path: cli/serve.py makes a path, cli/running_server.py looks at the folders.
Rule: a folder in the temp folder belongs to this user and is closed to all others, or it is not used: whoever owns it
      could put another server's socket there.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hsdns.cli.flags import Flag, FlagError

SYSTEM: Final = Path("/run/hsdns")  # for `control` in the Corefile of a service
OFF: Final = "off"
FLAG: Final = Flag(str, "open a control socket, for this user alone (default: none)", "PATH")
CHOICE: Final = Flag(
    str, "control socket of the server to ask (default: that of the one that runs)", "PATH"
)


class ControlPathError(Exception):
    """A sentence: why there is no folder for control sockets."""


def check_alone(flags: Mapping[str, object]) -> None:
    """Refuse -control beside a flag with which no server is asked; raise FlagError."""
    for other in ("conf", "source"):
        if "control" in flags and other in flags:
            raise FlagError(f"-control and -{other} exclude each other; leave one out")


def own_folder() -> Path:
    """The folder of this user, which may not exist: in XDG_RUNTIME_DIR, else in the temp folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "hsdns")
    return Path(tempfile.gettempdir(), f"hsdns-{os.geteuid()}")


def is_safe(folder: Path) -> bool:
    """Whether a folder belongs to this user alone; raise OSError if that cannot be seen."""
    found = folder.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )


def make_path() -> str:
    """A path for the socket of this process; makes the folder, or raises ControlPathError."""
    try:
        folder = own_folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        safe = is_safe(folder)
    except OSError as error:
        raise ControlPathError(
            f"there is no control socket: cannot make the folder {error.filename or 'for it'}: {error.strerror};"
            " name a socket with -control PATH"
        ) from error
    if not safe:
        raise ControlPathError(
            f"there is no control socket: the folder {folder} must belong to this user alone;"
            f" chmod 700 it, or name a socket with -control PATH"
        )
    return str(folder / f"{os.getpid()}.sock")


def sockets() -> list[Path]:
    """The sockets in the folders; those of servers that were killed are among them."""
    found: list[Path] = []
    for folder in (own_folder(), SYSTEM):
        try:
            if folder == SYSTEM or is_safe(folder):
                found += sorted(each for each in folder.iterdir() if each.suffix == ".sock")
        except OSError:  # there is none
            continue
    return found
