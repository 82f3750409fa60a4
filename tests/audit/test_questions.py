"""Questions of an audit over a synthetic cluster of four Services: svc-1 and svc-3 are headless."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.audit.run import audit_questions
from hsdns.load.questions import Question
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import type_to_text
from tests.load.clusters import with_block


def questions(absent: int, seed: int = 1, *source: str) -> list[Question]:
    async def choose(block: Kubernetes) -> list[Question]:
        return audit_questions([block.answer_set()], absent, Random(seed)).all

    found = with_block(choose, *source)
    assert isinstance(found, list)
    return found


def test_every_rrset_of_the_cluster_is_asked_for_once() -> None:
    async def rrsets(block: Kubernetes) -> set[tuple[str, str]]:
        return {
            (rrset[0].owner.to_text(), type_to_text(rrset[0].rrtype))
            for rrset in block.answer_set().rrsets()
        }

    every = with_block(rrsets)
    found = [(each.name.to_text(), type_to_text(each.qtype)) for each in questions(0)]
    assert len(found) == len(set(found))
    left_out = every - set(found)
    # What a server says of itself.
    assert {(name.split("cluster.local.")[0], qtype) for name, qtype in left_out if "arpa" not in name} == {
        ("", "SOA"), ("", "NS"), ("ns.dns.", "A"), ("dns-version.", "TXT"),
    }  # fmt: skip
    assert {qtype for name, qtype in left_out if "arpa" in name} <= {"SOA", "NS", "A", "TXT"}


@pytest.mark.parametrize("seed", range(8))
def test_absent_names_do_not_exist(seed: int) -> None:
    found = questions(4, seed)
    existing = {each.name for each in found if each.group != "absent"}
    absent = [each for each in found if each.group == "absent"]
    assert absent
    assert len(absent) <= 4
    assert not existing & {each.name for each in absent}
    assert all(each.name.to_text().endswith(".ns-0.svc.cluster.local.") for each in absent)


def test_groups() -> None:
    groups = {each.group for each in questions(1)}
    assert groups == {"service", "endpoint", "srv", "reverse", "absent"}


def test_an_empty_cluster_has_no_questions() -> None:
    assert questions(10, 1, "synthetic", "services=0", "endpoints=0") == []
