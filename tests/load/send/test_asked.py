from hsdns.load.send.connection import Asked, Heard


def test_a_query_begins_without_a_connection() -> None:
    asked = Asked(b"octets", 3, 10, 20)
    assert (asked.octets, asked.question, asked.planned, asked.sent) == (b"octets", 3, 10, 20)
    assert (asked.connection, asked.key, asked.tries, asked.is_over) == (None, -1, 0, False)


def test_without_a_reason_it_was_not_seen() -> None:
    assert Heard(None, None).why == ""
