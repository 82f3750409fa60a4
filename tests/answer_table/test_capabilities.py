"""Which plugins tell the answer table what."""

from __future__ import annotations

import pytest

from hsdns.answer_table.capabilities import (
    AnswersFirst,
    AnswerSource,
    Cacheable,
    CountsCacheHits,
    CountsHits,
    LimitsPayload,
    LogsHits,
    RotatesAddresses,
)
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER

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
