"""Draws docs/dashboard.png: the web page of a server that answers queries.

    make pictures

Path: the demo cluster of the package, served and asked here -> the page in a headless Chromium -> docs/dashboard.md.
Rule 1: nothing on the picture is typed in by hand: the server counts the queries that it gets here.
Rule 2: how many those are each second is drawn from a fixed seed, so that the graphs look alike each time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from dns.message import make_query

from loadtest.ports import free_port
from tests.support.browser.chromium import PROGRAM, Tab, tab

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = ROOT / "docs" / "dashboard.png"
WIDTH: Final = 1180
SECONDS: Final = 40  # of queries, which the graphs show
BURSTS: Final = 20  # a second
EXPLAINED: Final = "search-1.search.shop.svc.cluster.local."
COREFILE: Final = """.:PORT {{
    bind 127.0.0.1
    health 127.0.0.1:{page}
    dashboard 127.0.0.1:{page}
    prometheus 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa {{
        source manifests demo
    }}
}}
"""
# What is asked, and how often beside the others.
QUESTIONS: Final = (
    ("consul-server.default.svc.cluster.local", "A", 30),
    ("consul-server.default.svc.cluster.local", "SRV", 9),
    ("frontend.shop.svc.cluster.local", "A", 24),
    ("frontend.shop.svc.cluster.local", "AAAA", 18),
    ("frontend.shop.svc.cluster.local.shop.svc.cluster.local", "A", 5),
    ("frontend.shop.svc.cluster.local.svc.cluster.local", "A", 4),
    (EXPLAINED, "A", 6),
    ("frontent.shop.svc.cluster.local", "A", 2),
    ("db.shop.svc.cluster.local", "A", 1),
)


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """The demo cluster, served: the address of its page and its port for queries."""
    shutil.copytree(ROOT / "hsdns" / "demo", folder / "demo")
    port, page = free_port(), free_port()
    (folder / "Corefile").write_text(COREFILE.format(page=page).replace("PORT", str(port)))
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hsdns", "-conf", "Corefile",
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        async for line in running.stdout:
            if b"fast path" in line or b"linux" in line:  # the last line of the start
                break
        yield f"http://127.0.0.1:{page}/", port
    finally:
        running.terminate()
        await running.communicate()


async def ask(port: int, seconds: float) -> None:
    """Send queries, more or fewer in each moment."""
    random = Random(7)
    weights = [weight for *_, weight in QUESTIONS]
    wires = [make_query(name, rrtype).to_wire() for name, rrtype, _ in QUESTIONS]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        rate = 20.0
        for _ in range(round(seconds * BURSTS)):
            rate = min(max(rate + random.uniform(-4, 4), 8), 40)
            for wire in random.choices(wires, weights, k=round(rate)):
                sock.send(wire)
            await asyncio.sleep(1 / BURSTS)


async def scene(opened: Tab, folder: Path, seconds: float) -> bytes:
    """The page after so many seconds of queries and a change of the cluster, with an explanation open."""
    async with server(folder) as (url, port):
        await opened.show(WIDTH)
        await opened.open(url)
        await opened.until("state.textContent === 'live'")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask(port, seconds))
            await opened.until("document.querySelector('#failing a')")
            demo = folder / "demo" / "frontend.yaml"
            changed = folder / "changed"
            changed.write_text(demo.read_text().replace("10.96.0.80", "10.96.0.81"))
            changed.rename(demo)
            await opened.until("document.querySelector('#changes a')")
            await opened.value(f"location.hash = '#{EXPLAINED}'")
            await opened.until("document.querySelector('#tree li')")
        await opened.until("document.querySelector('#search_waste a')")
        await opened.value("document.activeElement.blur()")
        assert opened.complaints == []
        return await opened.picture()


async def draw(seconds: float = SECONDS) -> bytes:
    """The picture, as PNG."""
    with tempfile.TemporaryDirectory(prefix="hsdns-") as folder:
        async with tab() as opened:
            return await scene(opened, Path(folder), seconds)


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(
            "docs/pictures/dashboard.py: chromium is not installed, so docs/dashboard.png stays as it is"
        )
    TARGET.write_bytes(asyncio.run(draw()))
