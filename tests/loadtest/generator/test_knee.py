from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from loadtest.generator.knee import Search, compile_server, told
from loadtest.ports import free_port
from loadtest.process import Process


@pytest.mark.parametrize(
    ("knees", "verdict"),
    [
        ((20_000, 19_600, 20_400), "holds: the knee of a server with 20000 queries a second, within 2%: 3 of 3 searches"),
        ((20_000, 19_599, 20_000), "DOES NOT HOLD: the knee of a server with 20000 queries a second, within 2%: 2 of 3 searches"),
        ((20_000, None, 20_401), "DOES NOT HOLD: the knee of a server with 20000 queries a second, within 2%: 1 of 3 searches"),
    ],
)  # fmt: skip
def test_all_have_to_find_what_is_there(knees: tuple[float | None, ...], verdict: str) -> None:
    lines, holds = told([Search(f"said {knee}", knee) for knee in knees], 20_000)
    assert lines[-1] == verdict
    assert holds == verdict.startswith("holds")
    assert [line.startswith("found: ") for line in lines[:-1]] == [
        knee is not None and 19_600 <= knee <= 20_400 for knee in knees
    ]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_paced_server_serves_one_query_after_the_other(tmp_path: Path) -> None:
    """Ten queries that come at once are answered a hundredth of a second apart, in their order."""
    program, port = compile_server(tmp_path), free_port()
    with (
        Process("paced", (str(program), str(port), "100"), tmp_path),
        socket.socket(type=socket.SOCK_DGRAM) as client,
    ):
        client.connect(("127.0.0.1", port))
        client.settimeout(0.5)
        query = bytes((0, 9, 1, 0)) + bytes(8)
        while True:
            try:
                client.send(query)
                client.recv(100)
                break
            except (ConnectionRefusedError, TimeoutError):  # it is starting
                continue
        for number in range(10):
            client.send(bytes((number,)) + query[1:])
        found = [client.recv(100) for _ in range(10)]
    assert found == [bytes((number, 9, 0x81, 0)) + bytes(8) for number in range(10)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_what_the_paced_server_refuses(tmp_path: Path) -> None:
    done = subprocess.run((compile_server(tmp_path), "53", "0"), capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "paced: write: paced PORT RATE\n")
