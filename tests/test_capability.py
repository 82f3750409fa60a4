from __future__ import annotations

from typing import Protocol, runtime_checkable

import pytest

from hsdns.chain import has


@runtime_checkable
class Speaks(Protocol):
    def speak(self) -> str: ...


class Dog:
    def speak(self) -> str:
        return "woof"


class Puppy(Dog):
    pass


class Stone:
    pass


@pytest.mark.parametrize(("plugin", "expected"), [(Dog(), True), (Puppy(), True), (Stone(), False)])
def test_says_what_isinstance_says(plugin: object, expected: bool) -> None:
    assert [has(plugin, Speaks), has(plugin, Speaks)] == [expected, expected]
    assert isinstance(plugin, Speaks) is expected


def test_protocols_are_told_apart() -> None:
    @runtime_checkable
    class Sleeps(Protocol):
        def sleep(self) -> None: ...

    assert has(Dog(), Speaks)
    assert not has(Dog(), Sleeps)
