import io

import pytest

from loadtest.answering.progress_bar import ProgressBar, line


@pytest.mark.parametrize(
    ("share", "elapsed", "expected"),
    [
        (0.0, 0.0, "[........................]   0%  hot"),
        (0.5, 30.0, "[############............]  50%, 30 s left  hot"),
        (1.5, 60.0, "[########################] 100%, 0 s left  hot"),
    ],
    ids=["begin", "half", "too much"],
)
def test_line(share: float, elapsed: float, expected: str) -> None:
    assert line(share, elapsed, "hot") == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_a_line_each_ten_seconds() -> None:
    out, now = io.StringIO(), iter(range(0, 100, 4))
    bar = ProgressBar(out, lambda: float(next(now)))
    bar.begin(10)
    for number in range(6):
        bar.step(f"step {number}")
    bar.end()
    assert [text.split("  ")[-1] for text in out.getvalue().splitlines()] == ["step 0", "step 3"]


def test_a_terminal_gets_one_line_that_is_removed_before_a_sentence() -> None:
    out, now = Terminal(), iter(range(100))
    bar = ProgressBar(out, lambda: float(next(now)))
    bar.begin(2)
    bar.step("a long step")
    bar.step("short")
    bar.log("missing: NSD")
    drawn = out.getvalue().split("\r")
    assert drawn[1].endswith("a long step")
    assert drawn[2].rstrip().endswith("short")
    assert drawn[3].strip() == ""
    assert drawn[4] == "missing: NSD\n"
