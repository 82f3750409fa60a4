"""The number of CPUs that this process may use, which is the default number of workers.

Path: cli/launch.py calls it if --workers is not given, settings.py for `multisocket` without a number.
Source: Linux cgroup-v2 `cpu.max`, cgroup-v1 `cpu.cfs_quota_us`; sched_getaffinity(2).
"""

from __future__ import annotations

import math
import os
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
