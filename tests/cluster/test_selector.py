"""Label selectors."""

import pytest

from hsdns.cluster.objects import Selector

WEB = {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("app=web", WEB, True),
        ("app == web", WEB, True),
        ("app=db", WEB, False),
        ("app!=db", WEB, True),
        ("app!=web", WEB, False),
        ("app!=web", {}, True),
        ("app", WEB, True),
        ("!app", WEB, False),
        ("! app", {}, True),
        ("app in (db, web)", WEB, True),
        ("app in (db)", WEB, False),
        ("app notin (db)", WEB, True),
        ("app notin (web)", {}, True),
        ("app=web,tier=front", WEB, True),
        ("app=web, tier=back", WEB, False),
        ("app in (web,db),!canary", WEB, True),
        ("example.org/part=x", {"example.org/part": "x"}, True),
        ("app=", {"app": ""}, True),
        ("app=web", None, False),
    ],
)
def test_matches(text: str, labels: dict[str, str] | None, selected: bool) -> None:
    assert Selector.from_text(text).matches(labels) is selected


@pytest.mark.parametrize(
    "text", ["", "=", "app=web,", ",app", "app in web", "app in (a", "a b", "!"]
)
def test_from_text_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        Selector.from_text(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("app=web", "app=web"),
        ("app == web ,tier != back", "app=web,tier!=back"),
        ("app in (web, db),!canary", "app in (db,web),!canary"),
        ("app notin (db,web)", "app notin (db,web)"),
        ("app in (web)", "app=web"),
        ("example.org/part", "example.org/part"),
        ("app=", "app="),
    ],
)
def test_is_written_as_the_api_reads_it(text: str, written: str) -> None:
    selector = Selector.from_text(text)
    assert str(selector) == written
    assert Selector.from_text(written) == selector
