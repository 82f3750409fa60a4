import ast
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.testing import pod_process

PROGRAM = Path(pod_process.__file__)


def test_it_needs_the_standard_library_alone() -> None:
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(PROGRAM.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert {str(name).partition(".")[0] for name in imported} <= sys.stdlib_module_names


@pytest.mark.slow
@pytest.mark.sockets
def test_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    """Whatever the machine allows, an address that is none ends it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = subprocess.run([sys.executable, "-I", "-S", PROGRAM, tmp_path, "10.96.0.300"], stdin=theirs.fileno(), check=False)  # fmt: skip
        theirs.close()
        said = ours.recv(4096).decode()
    assert ended.returncode == 0
    reasons = ("a separate network namespace cannot be set up (", "the kernel refuses user namespaces (", "/proc/self/")  # fmt: skip
    assert said.startswith(reasons), said
