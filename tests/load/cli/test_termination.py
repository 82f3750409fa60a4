import signal

import pytest

from hsdns.load.cli.load import Termination


def test_before_a_load_it_is_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), Termination():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_in_a_load_it_is_noted_until_it_is_asked_for() -> None:
    with Termination() as termination:
        assert not termination.take()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert [termination.take(), termination.take()] == [True, False]
