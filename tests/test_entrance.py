from __future__ import annotations

from dataclasses import dataclass

import pytest

from hsdns.chain import Handler, Next, Request
from hsdns.entrance import Entrance, Entrances
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request


@dataclass
class Door(Handler):
    """Lets in what begins with a label, "" for everything, and names the view."""

    label: str
    view: str = ""
    name = "door"
    guards = True

    def enter(self, request: Request) -> Request | None:
        """Let in, or not."""
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
    entrances = Entrances(
        {
            Name.from_text(zone): [
                Entrance(CHAINS[name] if name else None, (Door(label, f"v-{name}"),))
                for name, label in blocks
            ]
            for zone, blocks in zones.items()
        }
    )
    found = entrances.choose(make_request(qname, qtype))
    if found is None:
        return None
    return f"{found[1].__name__} {found[0].zone.to_text()} {found[0].view}"


@pytest.mark.parametrize(
    ("zones", "qname", "qtype", "expected"),
    [
        pytest.param(
            {"example.org": [("red", "www"), ("green", "")]},
            "www.example.org",
            "A",
            "red example.org. v-red",
            id="first-that-takes-it",
        ),
        pytest.param(
            {"example.org": [("red", "www"), ("green", "")]},
            "ftp.example.org",
            "A",
            "green example.org. v-green",
            id="second",
        ),
        pytest.param(
            {"example.org": [("green", ""), ("red", "www")]},
            "www.example.org",
            "A",
            "green example.org. v-green",
            id="file-order",
        ),
        pytest.param(
            {"example.org": [("red", "www")], "org": [("green", "")]},
            "ftp.example.org",
            "A",
            "green org. v-green",
            id="shorter-zone",
        ),
        pytest.param(
            {"example.org": [("red", "www")], ".": [("green", "")]},
            "ftp.example.org",
            "A",
            "green . v-green",
            id="root-at-last",
        ),
        pytest.param(
            {"example.org": [("red", "www")]}, "ftp.example.org", "A", None, id="nobody-takes-it"
        ),
        pytest.param({"example.org": [("red", "")]}, "example.net", "A", None, id="no-zone"),
        pytest.param(
            {"example.org": [(None, "www"), ("red", "")]},
            "ftp.example.org",
            "A",
            None,
            id="block-without-handlers-refuses",
        ),
        pytest.param(
            {".": [(None, ""), ("red", "")]},
            "example.org",
            "A",
            "red . v-red",
            id="root-block-without-handlers-is-passed-over",
        ),
        pytest.param(
            {"example.org": [("red", "")], "org": [("green", ""), ("blue", "")]},
            "example.org",
            "DS",
            "blue org. v-blue",
            id="ds-to-the-last-that-takes-it",
        ),
        pytest.param(
            {"example.org": [("red", "")], ".": [("green", "")]},
            "example.org",
            "DS",
            "red example.org. v-red",
            id="ds-not-to-the-root",
        ),
        pytest.param(
            {".": [("red", "www"), ("green", ""), ("blue", "")]},
            "example.org",
            "DS",
            "green . v-green",
            id="ds-to-the-first-of-the-root",
        ),
        pytest.param(
            {".": [("red", ""), ("green", "")]}, ".", "DS", "green . v-green", id="ds-of-the-root"
        ),
        pytest.param(
            {".": [("red", "www"), ("green", "")]}, ".", "A", "green . v-green", id="root-name"
        ),
    ],
)
def test_choose(
    zones: dict[str, list[tuple[str | None, str]]], qname: str, qtype: str, expected: str | None
) -> None:
    assert choose(zones, qname, qtype) == expected


def test_guards_are_asked_one_after_the_other() -> None:
    entrance = Entrance(CHAINS["red"], (Door("", "a"), Door("", "b"), Door("www", "c")))
    entered = entrance.enter(make_request("www.example.org"))
    assert entered is not None
    assert entered.view == "abc"
    assert entrance.enter(make_request("ftp.example.org")) is None
    assert Entrance(CHAINS["red"]).enter(make_request("ftp.example.org")) is not None
