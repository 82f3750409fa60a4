import pytest

from loadtest.answering.cli import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "hot,warm"], "warm is not known; write one or more of hot, ports, cluster,"),
        (["--servers", ","], "write one or more of echo, hsdns,"),
        (["--rounds", "0"], "0 is out of range, allowed is 1 and above"),
    ],
    ids=["mix", "server", "rounds"],
)
def test_wrong_words(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
