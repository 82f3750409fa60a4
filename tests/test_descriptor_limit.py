"""The limit of file descriptors, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
