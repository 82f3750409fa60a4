import pytest

from loadtest.pressure.unseen import GIVE_UP, Unseen


def state(number: int) -> frozenset[str]:
    return frozenset({f"10.0.0.{number}"})


@pytest.mark.parametrize(
    ("answers", "is_seen"),
    [
        pytest.param([], False, id="none"),
        pytest.param([(0.9, 0), (1.1, 1)], True, id="shown"),
        pytest.param([(0.9, 0), (1.1, 0)], False, id="not-yet"),
        pytest.param([(1.1, 1)], False, id="nothing-to-compare-with"),
        pytest.param([(0.5, 0), (0.996, 1)], False, id="the-change-before-was-late"),
        pytest.param([(0.5, 0), (0.996, 1), (1.1, 1)], False, id="and-still-this-one"),
        pytest.param([(0.5, 0), (0.996, 1), (1.1, 1), (1.2, 2)], True, id="then-this-one-is-shown"),
        pytest.param([(0.6, 1), (0.5, 0), (1.1, 1)], False, id="overtaken"),
        pytest.param([(0.6, 1), (0.5, 0), (1.1, 2)], True, id="overtaken-then-shown"),
    ],
)
def test_a_change_that_is_due_at_1(answers: list[tuple[float, int]], is_seen: bool) -> None:
    unseen = Unseen()
    unseen.add(7, 1.0)
    for asked, number in answers:
        unseen.take(7, asked, state(number))
    assert bool(unseen) is not is_seen


def test_each_is_queried_in_turn_until_it_is_given_up() -> None:
    unseen = Unseen()
    for service, due in ((1, 10.0), (2, 11.0)):
        unseen.add(service, due)
    assert [unseen.next(now) for now in (10.0, 10.1, 10.2)] == [1, 2, 1]
    assert unseen.next(10.3) == 2
    assert unseen.next(10.0 + GIVE_UP) == 1
    assert [unseen.next(10.0 + GIVE_UP), unseen.next(11.0 + GIVE_UP)] == [2, 2]
    assert not unseen


def test_other_services_have_answers_of_their_own() -> None:
    unseen = Unseen()
    unseen.take(1, 0.5, state(0))
    unseen.add(2, 1.0)
    unseen.take(2, 1.1, state(1))
    assert unseen
