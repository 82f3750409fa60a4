"""An object that says it has a billion items costs what it has, not the process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fastpath.twins import HAS_NATIVE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not HAS_NATIVE, reason="the compiled twin is not built, and only it allocates")
def test_no_claim_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fastpath.liars"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) > 60
