import argparse

import pytest

from loadtest.pressure.cli import duration, main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "existing,warm"], "warm is not known; write one or more of existing, new-4k,"),
        (["--servers", ","], "write one or more of hsdns, hsdns-pure, coredns"),
        (["--services", "10"], "10 is not from 500 to 100000"),
        (["--soak", "30"], '"30" is no time; write a number with s, m or h: 30m'),
    ],
    ids=["row", "server", "services", "soak"],
)
def test_wrong_words(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("word", "seconds"), [("60s", 60), ("30m", 1800), ("2h", 7200)])
def test_duration(word: str, seconds: float) -> None:
    assert duration(word) == seconds


@pytest.mark.parametrize("word", ["", "0s", "m", "-1m", "1.5m", "1 m", "1d"])
def test_no_duration(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(word)
