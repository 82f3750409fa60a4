"""A process that was stopped and goes on answers what waited meanwhile from the state that the API server has by then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from hsdns.fastpath import IMPLEMENTATION
from hsdns.server.watch_loop import LEASE
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port

pytestmark = pytest.mark.sockets
WAITING: Final = 250  # queries, each for a name of its own
COREFILE: Final = """.:{port} {{
    bind 127.0.0.1
    kubernetes cluster.local {{
        endpoint {api}
    }}
    cache
}}
"""


def service(number: int, network: int) -> dict[str, Any]:
    address = f"10.{network}.0.{number + 1}"
    return {
        "kind": "Service",
        "metadata": {"name": f"s{number}", "namespace": "shop"},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
    }


async def ask(port: int, number: int, seconds: float) -> str:
    query = dns.message.make_query(f"s{number}.shop.svc.cluster.local", "A")
    reply = await dns.asyncquery.udp(query, "127.0.0.1", seconds, port)
    assert dns.flags.to_text(reply.flags) == "QR AA RD"
    return " ".join(each.to_text() for each in (*reply.answer, *reply.authority))


@pytest.mark.parametrize("twin", ["rust", "python"])
async def test_what_waited_is_answered_from_the_present_state(twin: str, tmp_path: Path) -> None:
    if twin == "rust" and IMPLEMENTATION != "rust":
        pytest.skip("there is no compiled fast path")

    def expected(network: int) -> list[str]:
        name = "s{0}.shop.svc.cluster.local. 5 IN A 10.{1}.0.{2}"
        return [name.format(number, network, number + 1) for number in range(WAITING)]

    async with FakeApi() as api:
        api.apply({"kind": "Namespace", "metadata": {"name": "shop"}})
        for number in range(WAITING):
            api.apply(service(number, 0))
        port, corefile = free_port(), tmp_path / "Corefile"
        corefile.write_text(COREFILE.format(port=port, api=api.url))
        words = [sys.executable, "-m", "hsdns", "-conf", str(corefile), "-quiet"]
        variables = os.environ | {"HSDNS_NO_EXTENSIONS": "1" if twin == "python" else ""}
        process = await asyncio.create_subprocess_exec(*words, env=variables)
        try:
            answered = ""
            while answered != expected(0)[0]:
                assert process.returncode is None, "it goes on"
                with contextlib.suppress(OSError, dns.exception.Timeout, AssertionError):
                    answered = await ask(port, 0, 1)
            # What follows is in the answer table.
            assert [await ask(port, each, 10) for each in range(WAITING)] == expected(0)
            process.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED)
            stopped = time.monotonic()
            for number in range(WAITING):
                api.apply(service(number, 1))
            waiting = [asyncio.create_task(ask(port, each, 60)) for each in range(WAITING)]
            # The lease is that of the process's clock, which goes on.
            await asyncio.sleep(stopped + 2 * LEASE - time.monotonic())
            process.send_signal(signal.SIGCONT)
            assert await asyncio.gather(*waiting) == expected(1)
        finally:
            process.kill()
            await process.wait()
