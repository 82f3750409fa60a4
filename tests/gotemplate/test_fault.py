from __future__ import annotations

from hsdns.gotemplate.tree import TemplateError


def test_says_what_and_where() -> None:
    error = TemplateError("what", 3)
    assert (str(error), error.message, error.at) == ("what", "what", 3)
    assert TemplateError("what").at == -1
