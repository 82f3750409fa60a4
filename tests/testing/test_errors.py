from unittest import SkipTest

import pytest

from hsdns.testing.errors import ClusterError, NoNamespaces, checks_keywords, hides, unknown


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (["web", "db"], 'there is no Service "wbe"; did you mean "web"?'),
        (["db", "api"], 'there is no Service "wbe"; there is api, db'),
        ([], 'there is no Service "wbe"; there is none yet'),
    ],
)
def test_unknown_word(known: list[str], sentence: str) -> None:
    assert str(unknown("there is no Service", "wbe", known)) == sentence


class Made:
    @checks_keywords
    def __init__(self, *paths: str, demo: bool = False) -> None:
        self.given = paths, demo

    @checks_keywords
    def run(self, words: str, *, check: bool = False) -> str:
        """Say how it was called."""
        return f"{words} {check}"


def test_keywords() -> None:
    assert Made("a", "b", demo=True).given == (("a", "b"), True)
    assert Made().run("x", check=True) == "x True"
    assert Made().run(words="x") == "x False"
    assert Made.run.__doc__ == "Say how it was called."


@pytest.mark.parametrize(
    ("keyword", "sentence"),
    [
        ("chek", 'run() has no keyword "chek"; did you mean "check"?'),
        ("shell", 'run() has no keyword "shell"; it has words, check'),
        ("self", 'run() has no keyword "self"; it has words, check'),
    ],
)
def test_unknown_keyword(keyword: str, sentence: str) -> None:
    keywords: dict[str, bool] = {keyword: True}
    with pytest.raises(TypeError) as raised:
        Made.run(Made(), "x", **keywords)
    assert str(raised.value) == sentence


def test_refused_namespaces_skip_a_test() -> None:
    assert issubclass(NoNamespaces, ClusterError)
    assert issubclass(NoNamespaces, SkipTest)


@pytest.mark.parametrize(
    ("error", "hidden"),
    [(ClusterError("a"), True), (NoNamespaces("a"), True), (KeyError("a"), False)],
)
def test_what_pytest_hides(error: Exception, hidden: bool) -> None:
    assert hides(pytest.ExceptionInfo.from_exc_info((type(error), error, None))) is hidden  # type: ignore[arg-type]  # raised nowhere
