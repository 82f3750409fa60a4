import pytest

from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token, did_you_mean

PLACE = Position("conf/Corefile", 12, 5)


def test_a_position_reads_like_a_compilers() -> None:
    assert str(PLACE) == "conf/Corefile:12:5"


def test_an_error_begins_with_its_position() -> None:
    error = CorefileError(PLACE, "no such thing")
    assert (str(error), error.position, error.message) == (
        "conf/Corefile:12:5: no such thing",
        PLACE,
        "no such thing",
    )


def test_lines_of_a_directive() -> None:
    name = Token("log", PLACE)
    line = Line(Token("class", PLACE), ())
    assert Directive(name, (), None).lines == ()
    assert Directive(name, (), (line,)).lines == (line,)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("ttll", '; did you mean "ttl"?', id="near"),
        pytest.param("fallthru", '; did you mean "fallthrough"?', id="shortened"),
        pytest.param("xyz", "", id="nothing near"),
        pytest.param("", "", id="empty"),
    ],
)
def test_did_you_mean(word: str, expected: str) -> None:
    assert did_you_mean(word, {"ttl", "fallthrough", "pods"}) == expected
