"""How glibc's malloc keeps memory that has been freed: one policy for the process.

Path: cli/launch.py sets it, before there are threads.
Rule 1: what has LARGE octets or more is a mapping of its own, which goes back to the kernel when it is freed.  Alone,
        glibc raises that bound up to 32 MiB as soon as something larger has been freed, such as the text of a
        Corefile or the answer table of a listener that has stopped.  From then on all buffers share a heap that only
        grows: docs/performance.md has what that costs in a soak.
        LARGE and TRIM are above READ, the buffer that uvloop has made and shortened for each record of TLS: as a
        mapping, or where the heap is trimmed each time, it costs more than to decrypt what is in it.
Rule 2: threads share ARENAS heaps, as what one has freed is of no use to another with a heap of its own.
Rule 3: who has set glibc's own variables knows better.
Source: mallopt(3).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

READ: Final = 256 * 1024  # octets
LARGE: Final = READ + 64 * 1024  # octets
TRIM: Final = 4 * READ  # octets that may be free at the end of a heap
ARENAS: Final = 2
_PARAMETERS: Final = {
    -3: LARGE,  # M_MMAP_THRESHOLD
    -1: TRIM,  # M_TRIM_THRESHOLD
    -8: ARENAS,  # M_ARENA_MAX
}
_VARIABLES: Final = ("MALLOC_", "GLIBC_TUNABLES")

Mallopt = Callable[[int, int], int]


def set_up(environ: Mapping[str, str] = os.environ, mallopt: Mallopt | None = None) -> bool:
    """Follow the policy from now on; tell whether the C library has done all of it."""
    if any(name.startswith(_VARIABLES) for name in environ):
        return False
    mallopt = mallopt or _find_mallopt()
    if mallopt is None:
        return False
    done = [mallopt(*each) for each in _PARAMETERS.items()]
    return all(done)


def _find_mallopt() -> Mallopt | None:
    """That of the C library; musl and macOS have none."""
    import ctypes  # noqa: PLC0415 - takes 2 ms, which only a server needs

    found: Mallopt | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return found
