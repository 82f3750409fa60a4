from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.wire.record_text import record_from_text
from tests.support.plugins.requests import rr_text


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("a.example. 60 IN A 192.0.2.1", "a.example. 60 IN A 192.0.2.1"),
        ("a.example A 192.0.2.1", "a.example. 3600 IN A 192.0.2.1"),
        ("a.example. IN 60 A 192.0.2.1", "a.example. 60 IN A 192.0.2.1"),
        ('a.example. 1h30m TXT a "b c"', 'a.example. 5400 IN TXT "a" "b c"'),
        ("a. 60 CH TXT x ; comment", 'a. 60 CH TXT "x"'),
        ("A.Example 60 in cname B.Example", "A.Example. 60 IN CNAME B.Example."),
        (
            "e. 60 IN SOA ns h (1\n 2 3\n 4 5)\n",
            "e. 60 IN SOA ns. h. 1 2 3 4 5",
        ),
        ("a. 60 IN TYPE65280 \\# 2 abcd", "a. 60 IN TYPE65280 \\# 2 abcd"),
        (". 60 IN NS a", ". 60 IN NS a."),
        ("@ 60 IN NS a", ". 60 IN NS a."),
        ("a. 60 IN HTTPS 1 . alpn=h2", 'a. 60 IN HTTPS 1 . alpn="h2"'),
    ],
)
def test_read(text: str, record: str) -> None:
    assert rr_text(record_from_text(text)) == record


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", '"" is not a record: it is empty'),
        (
            "  a. 60 IN A 192.0.2.1",
            '"  a. 60 IN A 192.0.2.1" is not a record: it begins with a space',
        ),
        ("a. 60 IN", '"a. 60 IN" is not a record: '),
        ("a. 60 IN A", '"a. 60 IN A" is not a record: '),
        ("a. 60 IN A bad", '"a. 60 IN A bad" is not a record: '),
        (
            "a. 60 IN 60 IN A 192.0.2.1",
            '"a. 60 IN 60 IN A 192.0.2.1" is not a record: it has no type',
        ),
        ("a. 60 IN NOSUCH x", '"a. 60 IN NOSUCH x" is not a record: '),
        ("a. 60 IN A 192.0.2.1 x", '"a. 60 IN A 192.0.2.1 x" is not a record: '),
        ("a..b 60 IN A 192.0.2.1", '"a..b 60 IN A 192.0.2.1" is not a record: '),
        ("a. 99999999999 IN A 192.0.2.1", '"a. 99999999999 IN A 192.0.2.1" is not a record: '),
        ('"a. 60 IN A 192.0.2.1"', '""a. 60 IN A 192.0.2.1"" is not a record: it is empty'),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="is not a record") as caught:
        record_from_text(text)
    assert str(caught.value).startswith(reason)


@given(strategies.text(alphabet='a. 60INATXT"\\;()\n@$#', max_size=30))
def test_any_text_gives_a_record_or_an_error(text: str) -> None:
    try:
        record_from_text(text)
    except ValueError as error:
        assert "is not a record" in str(error)
