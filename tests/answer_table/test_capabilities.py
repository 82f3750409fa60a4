"""Which plugins tell the answer table what, and the names of the numbers that it counts."""

from __future__ import annotations

from types import ModuleType

import pytest

from hsdns.answer_table.capabilities import (
    AnswersFirst,
    AnswerSource,
    Cacheable,
    CountsCacheHits,
    CountsHits,
    HitCounts,
    LimitsPayload,
    LogsHits,
    RotatesAddresses,
)
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.fastpath.hit_counts import CELLS
from hsdns.metrics import SIZE_BUCKETS, TIME_BUCKETS
from hsdns.plugins import ORDER
from hsdns.wire.edns import Edns
from tests.answer_table.corefiles import OBJECTS, block
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask

COREFILE = """. {
    acl
    any
    autopath @kubernetes
    bufsize
    cache
    cancel
    chaos
    dns64
    erratic
    errors
    forward . 192.0.2.1
    header {
        response set ra
    }
    hosts /nonexistent
    k8s_external
    kubernetes cluster.local
    loadbalance
    local
    log
    loop
    metadata
    minimal
    nsid
    prometheus
    rewrite name a.org b.org
    template IN A
    transfer {
        to *
    }
    view v
    whoami
}
"""


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        (AnswerSource, "kubernetes"),
        (AnswersFirst, "cache hosts k8s_external local rewrite template"),
        (CountsCacheHits, "cache"),
        (CountsHits, "prometheus"),
        (LimitsPayload, "bufsize"),
        (LogsHits, "log"),
        (RotatesAddresses, "loadbalance"),
        (
            Cacheable,
            "any bufsize cache cancel chaos dns64 errors forward header hosts k8s_external kubernetes loadbalance"
            " local log loop metadata minimal prometheus rewrite template transfer",
        ),
    ],
)
def test_handlers_with_a_capability(capability: type, names: str) -> None:
    corefile = parse("Corefile", text=COREFILE, environ={}, known_directives=frozenset(ORDER))
    (block,) = assemble(corefile, warn=lambda sentence: None).blocks
    found = [each.name for each in block.handlers if isinstance(each, capability)]
    assert sorted(found) == names.split()


def test_every_number_has_one_name() -> None:
    counts = HitCounts.from_cells(range(CELLS))
    seconds = counts.durations[-1]
    found = [
        counts.ipv4,
        counts.ipv6,
        counts.do,
        *counts.request_sizes,
        *counts.response_sizes,
        *counts.durations[:-1],
        round(seconds * 1_000_000_000),
        counts.cache_hits,
        counts.cache_misses,
    ]
    assert found == list(range(CELLS))
    assert len(counts.request_sizes) == len(counts.response_sizes) == len(SIZE_BUCKETS) + 2
    assert len(counts.durations) == len(TIME_BUCKETS) + 2


def test_counts_of_a_table(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(f"cache\n{KUBERNETES}"), twin, OBJECTS)
    plain, with_do = (
        ask("web.default.svc.cluster.local.", edns=edns) for edns in (None, Edns(1232, do=True))
    )
    for wire in (plain, with_do):
        memory_server.from_chain(wire)
    for wire, is_v6 in ((plain, False), (plain, True), (with_do, False)):
        assert memory_server.from_table(wire, "tcp", v6=is_v6) is not None
    ((_, is_tcp, cells),) = memory_server.writer.table.take_counts()
    counts = HitCounts.from_cells(cells)
    assert is_tcp
    assert (counts.ipv4, counts.ipv6, counts.do, counts.queries) == (2, 1, 1, 3)
    assert counts.request_sizes[-1] == 2 * len(plain) + len(with_do)
    assert sum(counts.request_sizes[:-1]) == sum(counts.response_sizes[:-1]) == 3
    assert sum(counts.durations[:-1]) == 3
    assert counts.cache_hits + counts.cache_misses == 3
