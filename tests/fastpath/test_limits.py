"""Limits of numbers: what fits passes, anything else is refused with a sentence."""

from __future__ import annotations

import pytest

from hsdns.fastpath.limits import refuse_numbers, refuse_payload


@pytest.mark.parametrize(
    ("group", "size", "fits"),
    [(0, 0, True), (2**32 - 1, 2**32 - 1, True), (-1, 0, False), (0, 2**32, False)],
)
def test_numbers_have_32_bits(group: int, size: int, fits: bool) -> None:
    if fits:
        refuse_numbers(group, size)
    else:
        with pytest.raises(OverflowError, match="32 bits"):
            refuse_numbers(group, size)


@pytest.mark.parametrize(
    ("size", "error"),
    [(512, None), (65_507, None), (65_535, None), (511, ValueError), (65_508, ValueError),
     (-1, OverflowError), (65_536, OverflowError)],
)  # fmt: skip
def test_payload_sizes_are_those_that_a_server_may_set(
    size: int, error: type[Exception] | None
) -> None:
    if error is None:
        refuse_payload(size)
    else:
        with pytest.raises(error, match=str(size)):
            refuse_payload(size)
