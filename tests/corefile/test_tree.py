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


def test_errors_about_what_is_written() -> None:
    word, other = Token("x", PLACE), PLACE._replace(line=1)
    line, directive = Line(word, (Token("y", other),)), Directive(word, (), None)
    for found in (PLACE, word, line, directive):
        assert str(found.error("no such thing")) == "conf/Corefile:12:5: no such thing"


def test_parse() -> None:
    assert Token("12", PLACE).parse(int) == 12
    with pytest.raises(CorefileError, match=r"^conf/Corefile:12:5: invalid literal"):
        Token("x", PLACE).parse(int)


def test_one_of() -> None:
    assert Token("set", PLACE).one_of(("set", "clear")) == "set"
    assert Token("SET", PLACE).one_of(("set", "clear"), ignore_case=True) == "set"
    with pytest.raises(
        CorefileError, match=r':12:5: "SETT" is not one of: set, clear; did you mean "set"\?$'
    ):
        Token("SETT", PLACE).one_of(("set", "clear"), ignore_case=True)
    with pytest.raises(CorefileError, match=r'"SET" is not one of: set, clear$'):
        Token("SET", PLACE).one_of(("set", "clear"))


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
