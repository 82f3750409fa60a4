"""What the answer table cannot take."""

import pytest

from hsdns.fastpath.limits import refuse_mark, refuse_numbers, refuse_payload


@pytest.mark.parametrize("numbers", [(0,), (1, (1 << 32) - 1), ()])
def test_numbers(numbers: tuple[int, ...]) -> None:
    refuse_numbers(*numbers)


@pytest.mark.parametrize(("numbers", "refused"), [((-1,), -1), ((0, 1 << 32), 1 << 32)])
def test_other_numbers(numbers: tuple[int, ...], refused: int) -> None:
    with pytest.raises(OverflowError, match=f"TTLs have 32 bits, {refused} does not fit"):
        refuse_numbers(*numbers)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (511, ValueError),
        (512, None),
        (65507, None),
        (65508, ValueError),
        (65535, None),
        (65536, OverflowError),
        (-1, OverflowError),
    ],
)
def test_payload(payload: int, error: type[Exception] | None) -> None:
    if error is None:
        refuse_payload(payload)
        return
    with pytest.raises(error):
        refuse_payload(payload)


@pytest.mark.parametrize("mark_ttl", [-2, 1, 30])
def test_mark(mark_ttl: int) -> None:
    refuse_mark(0)
    refuse_mark(-1)
    with pytest.raises(ValueError, match=f"0 or -1, not {mark_ttl}"):
        refuse_mark(mark_ttl)
