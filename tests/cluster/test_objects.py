"""Label selectors.

What a question leads to, among objects in memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from hsdns.cluster.objects import Object, Selector
from hsdns.cluster.source import OTHER_PODS, Lead, ObjectIndex
from tests.support.cluster.explained import named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(("row", "selected"), columns(TABLES, "selectors"))
def test_matches(row: str, selected: str) -> None:
    text, _, words = row.rpartition(" of ")
    labels = dict(word.split("=") for word in words.split(",") if "=" in word)
    found = Selector.from_text(text).matches(None if words == "nothing" else labels)
    assert str(found) == selected


@pytest.mark.parametrize(
    "text", ["", "=", "app=web,", ",app", "app in web", "app in (a", "a b", "!"]
)
def test_from_text_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        Selector.from_text(text)


@pytest.mark.parametrize(("text", "written"), columns(TABLES, "how selectors are written"))
def test_is_written_as_the_api_reads_it(text: str, written: str) -> None:
    selector = Selector.from_text(text)
    assert str(selector) == written
    assert Selector.from_text(written) == selector


DB = structs.replace(service("shop/db"), spec=structs.replace(service("shop/db").spec, selector={"app": "db"}))  # fmt: skip
LOST = structs.replace(DB, metadata=structs.replace(DB.metadata, name="lost"), spec=structs.replace(DB.spec, selector={"app": "x"}))  # fmt: skip
OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("other"),
    DB,
    LOST,
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 pod=named ready=false"),
    named_pod("shop/db-0", "10.0.0.3", labels={"app": "db"}),
    named_pod("shop/named", "10.0.0.1", labels={"app": "else"}),
    named_pod("other/y", "10.0.0.4", labels={"app": "db"}),
]


@pytest.mark.parametrize(
    ("lead", "names"),
    [
        (Lead((b"shop",), ((b"shop", b"db"),)), ["db", "db-0", "db-1", "named", "shop"]),
        (Lead((b"shop",), ((b"shop", b"web"),)), ["shop", "web"]),
        (Lead((b"shop",), ((b"shop", b"lost"),)), ["db-0", "lost", "named", "shop"]),
        (Lead((b"none",), ((b"none", b"db"),)), []),
        (Lead(address="10.0.0.1"), ["db", "db-0", "db-1", "named", "shop"]),
        (Lead(address="10.0.0.4"), ["y"]),
        (Lead(pod="db"), ["db-0"]),
        (Lead(), []),
    ],
)
def test_a_lead(lead: Lead, names: list[str]) -> None:
    found = ObjectIndex(OBJECTS).find(lead)
    assert sorted(each.metadata.name for each in found) == names


def test_where_a_selector_matches_none_some_pods_are_given() -> None:
    pods = [named_pod(f"shop/p{number}", labels={"app": "y"}) for number in range(OTHER_PODS + 9)]
    found = ObjectIndex([LOST, *pods]).find(Lead(services=((b"shop", b"lost"),)))
    assert len(found) == 1 + OTHER_PODS
