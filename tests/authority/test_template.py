from __future__ import annotations

import pytest

from hsdns.plugins.auto import OriginTemplate


@pytest.mark.parametrize(
    ("words", "file_name", "origin"),
    [
        pytest.param((), "db.example.org", "example.org.", id="default"),
        pytest.param((), "db.Example.ORG", "example.org.", id="lower-case"),
        pytest.param((), "www.db.example.org", "example.org.", id="not-anchored"),
        pytest.param((), "example.org", None, id="no-match"),
        pytest.param((), "db..org", None, id="no-name"),
        pytest.param((r"^(.*)-(\w+)\.zone$", "{2}.{1}"), "a.b-c.zone", "c.a.b.", id="two-groups"),
        pytest.param((r"^(?P<name>.*)\.zone$", "{name}.test"), "a.zone", "a.test.", id="named"),
        pytest.param((r"^(.*)\.zone$", "$1.test"), "a.zone", "a.test.", id="go-form"),
        pytest.param((r"^(.*)\.zone$", "${1}x.test"), "a.zone", "ax.test.", id="go-form-in-braces"),
        pytest.param((r"^(.*)\.zone$", "x{7}.test"), "a.zone", "x.test.", id="no-such-group"),
        pytest.param((r"^(x)?(.*)\.zone$", "{1}{2}"), "a.zone", "a.", id="group-without-a-part"),
        pytest.param((r"^(.*)\.zone$", "fixed.test"), "a.zone", "fixed.test.", id="no-reference"),
    ],
)
def test_origin(words: tuple[str, ...], file_name: str, origin: str | None) -> None:
    found = OriginTemplate(*words).origin(file_name)
    assert (None if found is None else found.to_text()) == origin


@pytest.mark.parametrize(
    ("regexp", "reason"),
    [
        (r"db\..*", r'"db\..*" needs at least one group, such as "(.*)"'),
        ("(", '"(" is not a regular expression: missing ): ('),
        ("(" + "a" * 10_000 + ")", "the pattern has 10002 characters, at most 10000 are allowed"),
    ],
    ids=["no-group", "syntax", "long"],
)
def test_refused(regexp: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        OriginTemplate(regexp)
    assert str(error.value) == reason
