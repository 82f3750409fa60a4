"""The CPUs that a process may use, and its limit of file descriptors (in a process of its own)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.limits import usable_cpus


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        pytest.param({}, 4, id="no cgroup"),
        pytest.param({"cpu.max": "max 100000\n"}, 4, id="v2 without a limit"),
        pytest.param({"cpu.max": "200000 100000\n"}, 2, id="v2, two"),
        pytest.param({"cpu.max": "150000 100000\n"}, 2, id="v2, one and a half"),
        pytest.param({"cpu.max": "5000 100000\n"}, 1, id="v2, a twentieth"),
        pytest.param({"cpu.max": "900000 100000\n"}, 4, id="v2, more than there are"),
        pytest.param({"cpu.max": "nonsense"}, 4, id="v2, nonsense"),
        pytest.param({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4, id="v1 without a limit"),
        pytest.param({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1, id="v1, one"),
    ],
)  # fmt: skip
def test_usable_cpus(
    files: dict[str, str], cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cpus(tmp_path) == cpus


CODE = """
import json, resource, subprocess, sys
from hsdns.limits import descriptor_limit, raise_limit, restore_limit
child = "import resource, sys; sys.stdin.read(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 100))
before = descriptor_limit()
raise_limit()
raise_limit()
with subprocess.Popen([sys.executable, "-c", child], stdin=-1, stdout=-1) as process:
    restore_limit(process.pid)
    inherited = int(process.communicate()[0])
restore_limit(process.pid)
print(json.dumps([before, descriptor_limit(), inherited]))
"""


@pytest.mark.slow
def test_the_limit_is_raised_here_and_as_before_in_a_child() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    assert json.loads(done.stdout) == [64, 100, 64]
