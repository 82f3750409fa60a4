from hsdns.load.verify.truth import MOST, States, Timeline


def test_states() -> None:
    timeline = Timeline("a")
    timeline.add(5.0, "b")
    assert timeline.states == States(0, [float("-inf"), 5.0], ["a", "b"])
    assert timeline.latest == "b"


def test_the_oldest_are_forgotten_and_what_was_taken_stays() -> None:
    timeline = Timeline(0)
    for number in range(1, MOST):
        timeline.add(float(number), number)
    taken = timeline.states
    timeline.add(float(MOST), MOST)
    base, since, values = timeline.states
    assert base == MOST // 2
    assert values == list(range(base, MOST + 1))
    assert since == [float(value) for value in values]
    assert (taken.base, taken.values) == (0, list(range(MOST)))


def test_what_had_ended_is_forgotten() -> None:
    timeline = Timeline("a")
    for time, value in ((1.0, "b"), (2.0, "c"), (3.0, "d")):
        timeline.add(time, value)
    assert timeline.forget(0.5) == 4
    assert timeline.forget(2.5) == 2
    assert timeline.states == States(2, [2.0, 3.0], ["c", "d"])
    assert timeline.forget(9.0) == 1
    assert timeline.latest == "d"
