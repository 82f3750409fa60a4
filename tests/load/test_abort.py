import pytest

from hsdns.load.limits import read_limits
from hsdns.load.outcome import LOST
from hsdns.load.questions import Question
from hsdns.load.results import Results
from hsdns.load.run import AbortWatch
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import STALE, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

MS = SECOND // 1000
QUESTIONS = [Question(Name.from_text("www.a.test."), RRType.A, "file")]
TIMEOUT = 2.0


def results(*, slow: range = range(0), lost: range = range(0), late: range = range(0)) -> Results:
    """100 queries in each of 30 seconds, each answered after 1 ms, in slow ones after 20 ms; the last one may be lost."""
    found = Results(QUESTIONS, 0)
    for second in range(30):
        for number in range(100):
            planned = second * SECOND + number * 10 * MS
            sent = planned + (19 * MS if second in late else 0)
            received = (
                LOST
                if second in lost and number == 99
                else planned + (20 if second in slow else 1) * MS
            )
            found.add([(0, 0x8400, 0, planned, sent, received)])
    return found  # fmt: skip


def ended(limits: str, found: Results) -> tuple[float, str]:
    """When a run is ended, and what is said."""
    watch = AbortWatch(read_limits(limits, verifies=True), TIMEOUT)
    for tenth in range(300):
        if said := watch.see(found, tenth / 10):
            return tenth / 10, said
    return 30.0, ""


@pytest.mark.parametrize(
    ("limits", "found", "at", "said"),
    [
        ("p99>5ms:abort", results(slow=range(30)), 7.0, "aborted by p99>5ms (20.0 ms over 5 s)"),
        ("p99>5ms:abort", results(slow=range(10, 30)), 13.0, "aborted by p99>5ms (20.0 ms over 5 s)"),
        ("p99>5ms", results(slow=range(30)), 30.0, ""),
        ("p99>50ms:abort", results(slow=range(30)), 30.0, ""),
        ("p99>5ms:abort", results(slow=range(30), late=range(30)), 30.0, ""),  # the generator's
        ("late.p99>5ms:abort", results(slow=range(30), late=range(30)), 7.0, "aborted by late.p99>5ms (19.0 ms over 5 s)"),
        ("max>1s:abort", results(lost=range(3, 4)), 7.0, "aborted by max>1s (lost over 5 s)"),
        ("loss>0.5%:abort", results(lost=range(8, 30)), 13.0, "aborted by loss>0.5% (0.600% over 5 s)"),
        ("loss>20:abort", results(), 30.0, ""),
        ("stale>0,p99>5ms:abort", results(slow=range(30)), 7.0, "aborted by p99>5ms (20.0 ms over 5 s)"),
    ],
)  # fmt: skip
def test_when_a_run_ends(limits: str, found: Results, at: float, said: str) -> None:
    assert ended(limits, found) == (at, said)


def test_a_number_ends_a_run_at_once() -> None:
    found = results()
    assert ended("stale>0:abort,loss>3:abort", found) == (30.0, "")
    found.add_verdict(Judged(0, 0.5, 0.5, Verdict(STALE, 0.3)))
    assert ended("stale>0:abort,loss>3:abort", found) == (1.0, "aborted by stale>0 (1)")
