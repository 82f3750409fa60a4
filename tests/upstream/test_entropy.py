from __future__ import annotations

from collections import Counter

from hsdns.upstream.entropy import Entropy


def test_it_draws_many_octets_at_a_time_and_uses_each_once() -> None:
    drawn: list[int] = []

    def draw(count: int) -> bytes:
        drawn.append(count)
        return b"".join((len(drawn) * 10_000 + k).to_bytes(2, "big") for k in range(count // 2))

    entropy = Entropy(draw)
    numbers = [entropy.number() for _ in range(3000)]
    assert numbers == [*range(10_000, 12_048), *range(20_000, 20_952)]
    assert drawn == [4096, 4096]


def test_the_numbers_of_the_kernel_are_spread_over_16_bits() -> None:
    entropy = Entropy()
    counts = Counter(entropy.number() >> 12 for _ in range(65_536))
    # 4,096 each; ten standard deviations.
    assert all(abs(counts[k] - 4096) < 620 for k in range(16))
