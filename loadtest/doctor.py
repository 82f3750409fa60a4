"""What `hsdns doctor` costs in a large cluster: seconds until its last line, CPU time and memory.

    python -m loadtest.doctor [--objects N] [--turns N] [--hsdns COMMAND]...

Path: a process with the lists of a made-up cluster, in pages -> `hsdns doctor -kubeconfig`, command by command in turns
-> a table on standard output.
Rule 1: an application is a Service, its EndpointSlice, a Deployment with two ReplicaSets, and three Pods, each with
        what controllers and kubelets write, so that sizes are realistic; one of a hundred selects no Pod.
Rule 2: no DNS server is asked: its answers cost the same in a small cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from multiprocessing import Process
from pathlib import Path
from statistics import median
from string import Template
from typing import Final

import yaml
from aiohttp import web

from loadtest.apiserver.objects import namespace_of
from loadtest.bench import markdown
from loadtest.process import BenchmarkError, run_benchmark
from loadtest.programs import ROOT, configuration

OF_ONE: Final = 8  # objects of an application


def lists(objects: int) -> dict[str, list[bytes]]:
    """The objects in JSON, by the plural of their kind."""
    written = yaml.safe_load((ROOT / "loadtest/configurations/application.yaml").read_text())
    del written["made"]
    templates = [
        (key, Template(json.dumps(each))) for key, some in written.items() for each in some
    ]
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for index in range(objects // OF_ONE):
        words = {
            "index": index,
            "namespace": namespace_of(index),
            "address": f"{index >> 8}.{index & 255}",
            "selected": f"web-{index}" if index % 100 else f"wbe-{index}",
        }
        for plural, each in templates:
            if index % 100 or plural != "endpointslices":
                found[plural].append(each.substitute(words).encode())
    return found


def serve(sock: socket.socket, found: Mapping[str, list[bytes]]) -> None:
    """Serve the lists in pages, until the process is ended."""

    async def answer(request: web.Request) -> web.Response:
        limit, at = int(request.query.get("limit", "0")), int(request.query.get("continue", "0"))
        is_some = "fieldSelector" in request.query or "labelSelector" in request.query
        listed = [] if is_some else found.get(request.path.rpartition("/")[2], [])
        end = at + limit if limit else len(listed)
        rest = b'"continue":"%d"' % end if end < len(listed) else b""
        body = b'{"kind":"List","metadata":{%b},"items":[%b]}' % (rest, b",".join(listed[at:end]))
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.add_routes([web.get("/{path:.*}", answer)])
    web.run_app(app, sock=sock, print=None, access_log=None)


def run(command: Sequence[str], folder: Path) -> tuple[float, float, float, str]:
    """Run the doctor: seconds, CPU seconds, MB of memory at most, and its last line; raise BenchmarkError."""
    words = [*command, "doctor", "-kubeconfig", "config", "-no-ask"]
    began = time.perf_counter()
    with (folder / "out").open("wb") as out:
        pid = os.posix_spawnp(
            words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), each) for each in (1, 2)]
        )  # fmt: skip
        _, status, used = os.wait4(pid, 0)
    seconds, text = time.perf_counter() - began, (folder / "out").read_text()
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise BenchmarkError(f"{' '.join(words)} failed:\n{text}")
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6
    return seconds, cpu, memory, text.splitlines()[-1]


def main(words: Sequence[str] | None = None) -> int:
    """Measure the commands in turns, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.doctor")
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--hsdns", action="append", help="command to measure; several are compared")
    given = parser.parse_args(words)
    commands = given.hsdns or [f"{sys.executable} -m hsdns"]
    sock = socket.create_server(("127.0.0.1", 0))
    api = Process(target=serve, args=(sock, lists(given.objects)), daemon=True)
    api.start()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.chdir(folder)
            access = {
                "url": f"http://127.0.0.1:{sock.getsockname()[1]}",
                "authority": "",
                "token": "",
            }
            (folder / "config").write_text(configuration("kubeconfig.json", **access))
            costs = [
                [run(shlex.split(each), folder) for each in commands] for _ in range(given.turns)
            ]
    finally:
        api.terminate()
        api.join()
    rows = [["command", "seconds", "CPU seconds", "memory, MB"]]
    for command, each in zip(commands, zip(*costs, strict=True), strict=True):
        figures = [list(column) for column in zip(*each, strict=True)][:3]
        rows.append([command, *(f"{median(column):.1f}" for column in figures)])
    print(markdown(rows, (0,)), end="")
    print(*(each[-1] for each in costs[0]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark("python -m loadtest.doctor", main))
