from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.chain import BlockChoice, Candidate, Next, Request
from hsdns.wire.iana import RRType
from hsdns.wire.message import Reply
from hsdns.wire.name import ROOT, Name
from tests import strategies
from tests.support.plugins.requests import make_request

# --- by the zone alone ---


def by_zone(*texts: str) -> BlockChoice[str]:
    return BlockChoice.by_zone({Name.from_text(text): text for text in texts})


@given(
    served=st.lists(strategies.related_names(), max_size=6),
    qname=strategies.related_names(),
    ds=st.booleans(),
)
def test_zone_is_the_longest_or_for_ds_the_shortest(
    served: list[Name], qname: Name, ds: bool
) -> None:
    found = BlockChoice.by_zone(dict.fromkeys(served, 1)).match(
        qname, RRType.DS if ds else RRType.A
    )
    holding = sorted(
        {zone.labels for zone in served if qname.is_at_or_below(zone)}, key=len, reverse=True
    )
    if not holding:
        assert found is None
        return
    assert found is not None
    # The root block is a last resort also for DS.
    cuts = [labels for labels in holding if labels] or holding
    assert found.zone.labels == (cuts[-1] if ds else holding[0])


# --- with filters ---


class LabelFilter(NamedTuple):
    """Takes the names that begin with a label, "" for all, and adds to the view's name."""

    label: str
    view: str = ""

    def filter_request(self, request: Request) -> Request | None:
        """Take a query, or not."""
        if self.label and request.query.qname.labels[:1] != (self.label.encode(),):
            return None
        return request.replace(view=request.view + self.view)


def chain(name: str) -> Next:
    async def answer(request: Request) -> Reply:
        raise AssertionError(f"{name} is not called here")

    answer.__name__ = name
    return answer


CHAINS = {name: chain(name) for name in ("red", "green", "blue", "grey")}


def choose(
    zones: dict[str, list[tuple[str | None, str]]], qname: str, qtype: str = "A"
) -> str | None:
    """Choose among blocks given as chain and label; say chain, zone and view."""
    choice = BlockChoice(
        {
            zone: [
                Candidate(zone, CHAINS[name] if name else None, (LabelFilter(label, f"v-{name}"),))
                for name, label in blocks
            ]
            for zone, blocks in ((Name.from_text(text), found) for text, found in zones.items())
        }
    )
    found = choice.choose(make_request(qname, qtype))
    if found is None:
        return None
    return f"{found[1].__name__} {found[0].zone.to_text()} {found[0].view}"


RED, GREEN, BLUE = ("red", ""), ("green", ""), ("blue", "")
RED_WWW = ("red", "www")


@pytest.mark.parametrize(
    ("zones", "qname", "qtype", "expected"),
    [
        ({"example.org": [RED_WWW, GREEN]}, "www.example.org", "A", "red example.org. v-red"),
        ({"example.org": [RED_WWW, GREEN]}, "ftp.example.org", "A", "green example.org. v-green"),
        ({"example.org": [GREEN, RED_WWW]}, "www.example.org", "A", "green example.org. v-green"),
        ({"example.org": [RED_WWW], "org": [GREEN]}, "ftp.example.org", "A", "green org. v-green"),
        ({"example.org": [RED_WWW], ".": [GREEN]}, "ftp.example.org", "A", "green . v-green"),
        ({"example.org": [RED_WWW]}, "ftp.example.org", "A", None),
        ({"example.org": [RED]}, "example.net", "A", None),
        ({"example.org": [(None, "www"), RED]}, "ftp.example.org", "A", None),
        ({".": [(None, ""), RED]}, "example.org", "A", "red . v-red"),
        ({"example.org": [RED], "org": [GREEN, BLUE]}, "example.org", "DS", "blue org. v-blue"),
        ({"example.org": [RED], ".": [GREEN]}, "example.org", "DS", "red example.org. v-red"),
        ({".": [RED_WWW, GREEN, BLUE]}, "example.org", "DS", "green . v-green"),
        ({".": [RED, GREEN]}, ".", "DS", "green . v-green"),
        ({".": [RED_WWW, GREEN]}, ".", "A", "green . v-green"),
    ],
    ids=[
        "first-that-takes-it", "second", "file-order", "shorter-zone", "root-at-last", "no-block-takes-it", "no-zone",
        "block-without-handlers-refuses", "root-block-without-handlers-is-passed-over", "ds-to-the-last-that-takes-it",
        "ds-not-to-the-root", "ds-to-the-first-of-the-root", "ds-of-the-root", "root-name",
    ],
)  # fmt: skip
def test_choose(
    zones: dict[str, list[tuple[str | None, str]]], qname: str, qtype: str, expected: str | None
) -> None:
    assert choose(zones, qname, qtype) == expected


def test_each_block_sees_the_query_as_it_came_in() -> None:
    choice = BlockChoice(
        {
            ROOT: [
                Candidate(ROOT, CHAINS["red"], (LabelFilter("", "a"), LabelFilter("www", "b"))),
                Candidate(ROOT, CHAINS["green"], (LabelFilter("", "c"),)),
            ]
        }
    )
    found = choice.choose(make_request("ftp.example.org"))
    assert found is not None
    assert (found[0].view, found[1].__name__) == ("c", "green")
