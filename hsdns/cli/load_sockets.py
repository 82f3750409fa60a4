"""Whether a process may have the UDP sockets that a load asks from (-sockets).

Path: cli/load.py -> here -> descriptor_limit.py.
Rule: the soft limit is raised first; the process that sends gets it as it is then.
"""

from __future__ import annotations

from typing import Final

from hsdns.cli.flags import FlagError
from hsdns.descriptor_limit import descriptor_limit, raise_limit

SPARE: Final = 32  # descriptors for everything else


def allow_sockets(sockets: int, connections: int = 0) -> None:
    """Raise the limit of descriptors for sockets, and connections beside them; raise FlagError if it is too low."""
    raise_limit()
    limit = descriptor_limit()
    if sockets + connections + SPARE > limit:
        beside = f" and {connections} connections" if connections else ""
        raise FlagError(
            f"-sockets: {sockets} sockets{beside} may be open at once, and a process here may have {limit} descriptors "
            "(ulimit -Hn); raise the limit, or ask from fewer"
        )
