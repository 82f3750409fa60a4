"""What this process may use: CPUs, the default number of workers, and open files, for it and for those that it starts.

Path: cli/launch.py raises it; server/transport/admission.py divides it; apiserver/kubeconfig.py starts a process.
Rule 1: the soft limit (often 1,024) is raised to the hard one, as Go does: it is that low for programs that use
        select(), which may rely on it.
Source: Linux cgroup-v2 `cpu.max`, cgroup-v1 `cpu.cfs_quota_us`; sched_getaffinity(2).
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
from pathlib import Path
from typing import Final

CGROUP: Final = Path("/sys/fs/cgroup")
_UNLIMITED: Final = float("inf")


def usable_cpus(cgroup: Path = CGROUP) -> int:
    """The number of CPUs in the scheduler's affinity mask, limited by the container's CPU quota; at least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, math.ceil(min(_limit_v2(cgroup), _limit_v1(cgroup), allowed))))


def _limit_v2(cgroup: Path) -> float:
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _limit_v1(cgroup: Path) -> float:
    return _ratio(
        _read(cgroup / "cpu" / "cpu.cfs_quota_us"), _read(cgroup / "cpu" / "cpu.cfs_period_us")
    )


def _ratio(quota: str, period: str) -> float:
    """Quota over period, in CPUs; `max` and -1 mean no limit."""
    if not quota.isdecimal() or not period.isdecimal() or not int(quota) or not int(period):
        return _UNLIMITED
    return int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


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
