"""Which blocks have their replies stored, and which of these replies."""

from __future__ import annotations

import pytest

from hsdns.answer_table.policy import BlockPolicy
from tests.answer_table.corefiles import (
    block,
)
from tests.support.servers.memory_server import KUBERNETES, MemoryServer

LOG_OF_LOCAL = 'log . "{local} {name}"'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(KUBERNETES, "", id="kubernetes-alone"),
        pytest.param("whoami", "it has no kubernetes plugin", id="none-of-kubernetes"),
        pytest.param("forward . 192.0.2.1", "it has no kubernetes plugin", id="forward"),
        pytest.param(f"whoami\n{KUBERNETES}", "whoami must see every query", id="whoami"),
        pytest.param(f"log\n{KUBERNETES}", "", id="log"),
        pytest.param(f"acl\nbufsize\nnsid\n{KUBERNETES}", "nsid, acl must see every query", id="clients-differ"),
        pytest.param(f"rewrite edns0 nsid set\n{KUBERNETES}", "rewrite must see every query", id="rewrite-of-options"),
        pytest.param(f"header {{\nresponse set rd\n}}\n{KUBERNETES}", "header must see every query", id="header-of-rd"),
        pytest.param(
            f"any\nbufsize\ncancel\nchaos\nminimal\nheader {{\nresponse set ra\n}}\nrewrite name a b\n{KUBERNETES}",
            "",
            id="what-depends-on-the-question",
        ),
        pytest.param(f'{LOG_OF_LOCAL}\n{KUBERNETES}', "log must see every query", id="log-of-the-asked-address"),
        pytest.param(f"whoami\n{LOG_OF_LOCAL}\n{KUBERNETES}", "log, whoami must see every query", id="two"),
        pytest.param(
            f"prometheus\nerrors\nloadbalance\ncache\nhosts {{\n192.0.2.1 a.org\n}}\nloop\nforward . 192.0.2.1\n{KUBERNETES}",
            "",
            id="all-that-may",
        ),
    ],
)  # fmt: skip
def test_reason(text: str, reason: str) -> None:
    memory_server = MemoryServer(block(text), None)
    (listener,) = memory_server.configuration.listeners
    (found,) = listener.zones.values()
    assert BlockPolicy(found.handlers).reason == reason


@pytest.mark.parametrize(
    ("text", "stores_cached"),
    [
        pytest.param("forward . 192.0.2.1", False, id="no-cache"),
        pytest.param("cache\nforward . 192.0.2.1", True, id="forward"),
        pytest.param(f"cache\n{KUBERNETES}", True, id="kubernetes"),
        pytest.param("cache\nwhoami", True, id="must-see-each-query-but-comes-after-cache"),
        pytest.param("cache\nheader {\nresponse set rd\n}\nwhoami", True, id="header-comes-after-cache"),
        pytest.param("prometheus\nerrors\nlog\nbufsize\nloadbalance\ncancel\nlocal\nany\nmetadata\ncache\nwhoami", True, id="all-that-may"),
        pytest.param("acl\ncache\nwhoami", False, id="acl"),
        pytest.param("nsid\ncache\nwhoami", False, id="nsid"),
        pytest.param("rewrite edns0 nsid set\ncache\nwhoami", False, id="rewrite-of-options"),
        pytest.param(f"{LOG_OF_LOCAL}\ncache\nwhoami", False, id="log-of-the-asked-address"),
        pytest.param("dns64\ncache\nwhoami", False, id="dns64"),
        pytest.param("view v {\nexpr true\n}\ncache\nwhoami", False, id="view-chooses-the-block"),
    ],
)  # fmt: skip
def test_replies_of_cache(text: str, stores_cached: bool) -> None:
    memory_server = MemoryServer(block(text), None)
    (found,) = memory_server.configuration.blocks
    policy = BlockPolicy(found.handlers)
    assert policy.stores_cached is stores_cached
    assert policy.stores_any is (stores_cached or not policy.reason)
