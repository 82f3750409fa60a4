import pytest

from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token

PLACE = Position("conf/Corefile", 12, 5)


def test_errors_about_what_is_written() -> None:
    word, other = Token("x", PLACE), PLACE._replace(line=1)
    line, directive = Line(word, (Token("y", other),)), Directive(word, (), None)
    for found in (PLACE, word, line, directive):
        assert str(found.error("no such thing")) == "conf/Corefile:12:5: no such thing"


def test_parse() -> None:
    assert Token("12", PLACE).parse(int) == 12
    with pytest.raises(CorefileError, match=r"^conf/Corefile:12:5: invalid literal"):
        Token("x", PLACE).parse(int)
