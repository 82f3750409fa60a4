from __future__ import annotations

import pytest

from hsdns.plugins.local import Local
from hsdns.wire.name import Name
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize(
    ("text", "zone", "names"),
    [
        ("local", "cluster.local.", None),
        ("local {\n localhost_prefix off\n}", "cluster.local.", ()),
        ("local {\n localhost_prefix off\n}", "a.localhost.", None),
        (
            "local {\n localhost_prefix off\n}",
            "in-addr.arpa.",
            ("0.in-addr.arpa.", "127.in-addr.arpa.", "255.in-addr.arpa."),
        ),
        ("local {\n localhost_prefix on\n localhost_prefix off\n}", "localhost.", None),
    ],
)
def test_names_answered_first(text: str, zone: str, names: tuple[str, ...] | None) -> None:
    found = set_up(Local, text).names_answered_first(Name.from_text(zone))
    assert (None if found is None else tuple(name.to_text() for name in found)) == names
