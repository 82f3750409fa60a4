"""The limit of open file descriptors: raised for this process, and as it was for those that it starts.

Path: cli/launch.py raises it; server/admission.py divides it; apiserver/kubeconfig.py starts a process.
Rule 1: the soft limit (often 1,024) is raised to the hard one, as Go does: it is that low for programs that use
        select(), which may rely on it.
"""

from __future__ import annotations

import contextlib
import resource
from typing import Final

UNLIMITED: Final = 1 << 20  # what an infinite limit counts as
_before: list[
    tuple[int, int]
] = []  # the limits with which this process was started, once they are raised


def raise_limit() -> None:
    """Raise the soft limit to the hard one, where the kernel allows it; again without effect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if not _before:
            _before.append((soft, hard))


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def restore_limit(pid: int) -> None:
    """Give a process that this one has started the limit from before raise_limit()."""
    with contextlib.suppress(OSError):  # it has ended already
        for limits in _before:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
