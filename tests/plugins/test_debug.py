from __future__ import annotations

import pytest

from hsdns.plugins.debug import Debug
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize("text", ["debug", "debug\ndebug"])
def test_setup(text: str) -> None:
    assert isinstance(set_up(Debug, text), Debug)
