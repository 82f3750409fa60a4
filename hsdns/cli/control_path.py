"""The location of a server's control API: a socket in a folder of the user, a path, or for `hsdns serve` an address.

Path: cli/serve.py makes a path, cli/running_server.py searches the folders.
Rule 1: a folder in the temporary folder is used only if it belongs to this user and no other user has access: its owner
        could put another server's socket there.
Rule 2: an address requires a token, from the environment: a container has no files of its user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from hsdns.cli.command import Flag, FlagError
from hsdns.corefile.keys import HostPort, split_host_port
from hsdns.wire import is_address

SYSTEM: Final = Path("/run/hsdns")  # for `control` in the Corefile of a service
OFF: Final = "off"
TOKEN: Final = "HSDNS_CONTROL_TOKEN"
FLAG: Final = Flag.of("open a control socket, for this user only (default: none)", "PATH")


class ControlPathError(Exception):
    """A sentence: says why there is no folder for control sockets."""


def address_of(control: str) -> HostPort | None:
    """The address and port in --control; None for a path."""
    return None if "/" in control else split_host_port(control)


def path_of(control: str | None) -> str | None:
    """The path in --control, None for off; raise FlagError for an address, which is for servers of tests."""
    if control is not None and address_of(control) is not None:
        raise FlagError(
            f'--control takes a path, found the address "{control}"; '
            "write control 127.0.0.1:PORT TOKENFILE in the Corefile, or use hsdns serve"
        )
    return None if control == OFF else control


def token_for(control: str | None) -> str | None:
    """The token for an address, None for a path; raise FlagError."""
    found = address_of(control) if control is not None else None
    if found is None:
        return None
    if not is_address(found.host):
        raise FlagError(
            f'--control needs a path, or an IP address and a port such as 0.0.0.0:9160, found "{control}"'
        )
    from hsdns.plugins.control import TOKEN_SYNTAX, is_token

    token = os.environ.get(TOKEN, "")
    if not is_token(token):
        raise FlagError(
            f"anyone who can reach {control} could use the control API, so it needs a token; "
            f"set {TOKEN} to {TOKEN_SYNTAX}"
        )
    return token


def own_folder() -> Path:
    """The folder of this user, which may not exist: in XDG_RUNTIME_DIR, else in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "hsdns")
    # tempfile.gettempdir() would try to write there, and raise where nothing can be written.
    return Path(os.environ.get("TMPDIR") or "/tmp", f"hsdns-{os.geteuid()}")


def is_safe(folder: Path) -> bool:
    """Whether a folder belongs to this user alone; raise OSError if that is unknown."""
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
            f"cannot create {error.filename or 'a folder'}: {error.strerror}; add --control PATH"
        ) from error
    if not safe:
        raise ControlPathError(
            f"only this user may have access to {folder}, the folder of the control socket; chmod 700 it"
        )
    return str(folder / f"{os.getpid()}.sock")


def sockets() -> list[Path]:
    """The sockets in the folders, including those of killed servers."""
    found: list[Path] = []
    for folder in (own_folder(), SYSTEM):
        try:
            if folder == SYSTEM or is_safe(folder):
                found += sorted(each for each in folder.iterdir() if each.suffix == ".sock")
        except OSError:  # there is none
            continue
    return found
