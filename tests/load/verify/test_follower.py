from hsdns.load.verify.follow import SERIES, Event, Follower
from hsdns.load.verify.judge import Answer
from hsdns.wire.iana import RRType

WEB, DB = (b"shop", b"web"), (b"shop", b"db")
COST = len(SERIES)


def addresses(*last: int) -> Answer:
    return Answer(0, frozenset((RRType.A, bytes((10, 0, 0, each))) for each in last))


class Said:
    """What each question has as its answer in state 0, 1, 2 ..."""

    def __init__(self, *answers: list[Answer | None]) -> None:
        self.answers = answers

    def expected(self, question: int, state: int) -> Answer | None:
        return self.answers[question][state]


class Cluster:
    """A follower of questions about a Service, with a clock and a prober that can be out of order."""

    def __init__(self, *answers: list[Answer | None], rate: float = 1.0) -> None:
        self.now = 0.0
        self.asked: list[Event] = []
        self.works = True
        questions = {WEB: range(len(answers))}
        self.follower = Follower(Said(*answers), questions, rate, self.ask, lambda: self.now)

    def ask(self, event: Event) -> bool:
        if self.works:
            self.asked.append(event)
        return self.works


def test_the_question_whose_answer_changes_is_asked() -> None:
    same = addresses(1)
    cluster = Cluster([same, same], [None, same], [same, addresses(1, 2)])
    cluster.follower.changed(WEB, 1, 5.0, "7")
    (event,) = cluster.asked
    assert (event.number, event.key, event.question, event.state, event.seen, event.written) == (0, WEB, 2, 1, 5.0, None)  # fmt: skip
    assert cluster.follower.events == [event]


def test_what_no_question_shows_is_not_followed() -> None:
    same = addresses(1)
    cluster = Cluster([same, same])
    cluster.follower.changed(WEB, 1, 5.0, "7")
    cluster.follower.changed(DB, 1, 5.0, "8")
    assert cluster.asked == cluster.follower.events == []


def test_what_a_change_adds_and_removes() -> None:
    gone = Answer(3)
    states: list[Answer | None] = [addresses(1), addresses(1, 2), addresses(2), addresses(3), gone, addresses(1)]  # fmt: skip
    cluster = Cluster(states, rate=1000.0)
    for state in range(1, len(states)):
        cluster.now += 1
        cluster.follower.changed(WEB, state, 5.0, str(state))
    assert [(each.adds, each.removes) for each in cluster.asked] == [
        (True, False),
        (False, True),
        (True, True),
        (False, True),
        (True, False),
    ]


def test_the_rate_is_never_exceeded() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(200)]
    cluster = Cluster(states, rate=COST / 2)
    for state in range(1, 101):
        cluster.now = state / 10
        cluster.follower.changed(WEB, state, cluster.now, str(state))
    assert [each.seen for each in cluster.asked] == [0.1, 2.1, 4.1, 6.1, 8.1]


def test_probes_that_are_given_back_follow_another_change() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(9)]
    cluster = Cluster(states, rate=0.001)
    cluster.follower.changed(WEB, 1, 1.0, "1")
    cluster.follower.changed(WEB, 2, 1.0, "2")
    assert len(cluster.asked) == 1
    cluster.follower.done(COST - 5)
    cluster.follower.changed(WEB, 3, 1.0, "3")
    assert len(cluster.asked) == 1
    cluster.follower.done(5)
    cluster.follower.changed(WEB, 4, 1.0, "4")
    assert [each.state for each in cluster.asked] == [1, 4]


def test_a_prober_that_takes_nothing() -> None:
    cluster = Cluster([addresses(1), addresses(2), addresses(3)])
    cluster.works = False
    cluster.follower.changed(WEB, 1, 1.0, "1")
    assert cluster.follower.events == []
    cluster.works = True
    cluster.follower.changed(WEB, 2, 1.0, "2")
    assert [each.number for each in cluster.follower.events] == [0]


def test_when_it_was_written_is_told_before_or_after() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(4)]
    cluster = Cluster(states, rate=1000.0)
    follower = cluster.follower
    follower.changed(WEB, 1, 5.0, "1")
    follower.written("1", 4.5)
    follower.written("2", 5.5)
    follower.changed(WEB, 2, 6.0, "2")
    follower.changed(WEB, 3, 7.0, "3")
    assert [each.written for each in follower.events] == [4.5, 5.5, None]
