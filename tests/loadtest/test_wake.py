"""The benchmark of waits for a processor: what it measures, not how much."""

from __future__ import annotations

from loadtest.wake import CASES, SHORT, Waits, compare


def test_each_case_is_measured_with_both_slices_in_turns() -> None:
    asked: list[tuple[int, int]] = []

    def measure(slice_: int, piece: int, rest: int) -> Waits:
        asked.append((piece, slice_))
        return Waits(30, 60 if slice_ else 4000, 70)

    rows = compare(measure, 3)
    pieces = [piece for piece, _ in CASES]
    assert [piece for piece, _ in asked] == [
        piece for _ in range(3) for piece in pieces for _ in "ab"
    ]
    assert [slice_ for _, slice_ in asked[:2]] == [SHORT, 0]
    assert [slice_ for _, slice_ in asked[6:8]] == [0, SHORT]
    assert rows[0] == "| 0.1 ms | 30 | 4,000 | 70 | 30 | 60 | 70 |"
    assert len(rows) == len(CASES)
