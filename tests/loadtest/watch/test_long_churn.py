from random import Random

import pytest

from hsdns.apiserver.resource import ENDPOINT_SLICES
from loadtest.watch.long_churn import Followed, Model, churn, differences, main, make_store


def test_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--events", "600", "--piece", "400", "--services", "20", "--endpoints", "2"]
    assert main(words) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["400", "600"]


def test_no_piece_is_begun_after_the_time() -> None:
    assert main(["--seconds", "0"]) == 0


def test_a_lost_event_is_a_difference() -> None:
    model = Model(10, 2, Random(1))
    followed = Followed(model, make_store())
    churn(model, followed, 200)
    assert differences(model, followed) == []
    while model.change()[0] is not ENDPOINT_SLICES:
        pass
    assert differences(model, followed) != []
