import subprocess
import sys

import pytest

from loadtest.answering.buffers import BUFFER_SIZE, enlarge_buffers

CHILD = """
import socket, sys
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
sys.stdin.readline()
print(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), flush=True)
"""


@pytest.mark.sockets
def test_the_socket_of_a_child_is_widened_if_the_kernel_lets_us() -> None:
    with subprocess.Popen(
        (sys.executable, "-c", CHILD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert enlarge_buffers(child.pid, port + 1) == 0
        widened = enlarge_buffers(child.pid, port)
        said, _ = child.communicate("\n")
    assert widened == (int(said) >= BUFFER_SIZE)


def test_a_process_that_is_gone_has_no_sockets() -> None:
    child = subprocess.Popen((sys.executable, "-c", ""))
    child.wait()
    assert enlarge_buffers(child.pid, 1) == 0
