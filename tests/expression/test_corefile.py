from __future__ import annotations

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.expression.queries import NAMES, read_expression
from tests.support.plugins.setup import directives


def read(text: str) -> str:
    """Compile the rest of the third line of a Corefile; return the text of the expression, or the error."""
    (line,) = directives(f"view a {{\n expr {text}\n}}")[0].lines
    try:
        return read_expression(line, line.args, NAMES).text
    except CorefileError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name()   ==  'a b'", "name() == 'a b'"),
        ('"any([1], # > 0)"', "any([1], # > 0)"),
        ("", 'Corefile:3:2: property "expr" needs an expression, found nothing'),
        (
            "size() ==   nme()",
            'Corefile:3:19: expression: function "nme" is not known; did you mean "name"?',
        ),
        (
            '"size() == nme()"',
            'Corefile:3:18: expression: function "nme" is not known; did you mean "name"?',
        ),
        ("size() ==", "Corefile:3:16: expression: found the end, expected a value"),
        (
            '"1 +\n nme()"',
            'Corefile:3:7: expression: function "nme" is not known; did you mean "name"?',
        ),
    ],
)
def test_read(text: str, expected: str) -> None:
    assert read(text) == expected
