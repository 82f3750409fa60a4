"""Which plugins /metrics shows of a block."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.ports import free_port
from tests.server.loopback import (
    ReloadableServer,
    running,
)

pytestmark = pytest.mark.sockets


async def test_plugins_are_shown_for_a_block_s_first_key(tmp_path: Path) -> None:

    http = free_port()
    block = f"10.0.0.0/15 b.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nwhoami\n}}\n"
    async with running(ReloadableServer(tmp_path, block)) as reloadable:
        shown = reloadable.server.metrics.gauge("coredns_plugin_enabled", "").values
        server = f"dns://127.0.0.1:{reloadable.port}"
        names = ("prometheus", "whoami")
        assert set(shown) == {(server, "0.10.in-addr.arpa.", "", name) for name in names}


async def test_plugins_of_a_chain_are_shown(tmp_path: Path) -> None:

    http = free_port()
    reloadable = ReloadableServer(
        tmp_path,
        f"a.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nerrors\nwhoami\n}}\n"
        "b.org {\nbind 127.0.0.1\nwhoami\n}\n",
    )
    async with running(reloadable):
        shown = reloadable.server.metrics.gauge("coredns_plugin_enabled", "").values
        server = f"dns://127.0.0.1:{reloadable.port}"
        assert set(shown) == {
            (server, "a.org.", "", name) for name in ("prometheus", "errors", "whoami")
        }
        await reloadable.ask("a.org")
        responses = reloadable.server.metrics.counter("coredns_dns_responses_total", "").values
        assert set(responses) == {(server, "a.org.", "", "NOERROR", "errors")}
