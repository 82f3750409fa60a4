import os
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
