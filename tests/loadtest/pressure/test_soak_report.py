"""The table of a soak on the page."""

from loadtest.answering.programs import COREDNS, NATIVE
from loadtest.pressure.soak_report import section
from loadtest.pressure.soak_result import Soak
from tests.loadtest.pressure.test_soak_result import GOOD, growing

LATE = GOOD._replace(shown_worst=0.346, memory=growing(1800, 30_000_000))
TABLE = """\
- command: `x`

| figure | limit | hsdns, compiled | CoreDNS |
| --- | ---: | ---: | --- |
| sent of what each pressing client should send | at least 95% | 100.0% | ended |
| answers judged, a second | at least 100 | 556 | ended |
| events applied: 99 % and all within, ms | 20, 100 | 4, 64 | ended |
| events shown: p99, ms | 20 | 4 | ended |
| the worst, and without the time in which a process that only wakes was late, ms | any, 100 | 346, 346: FAILS | ended |
| /health answered | at least 99% | 100.0% | ended |
| answers stale or wrong | 0 | 0 of 1,000,000 | ended |
| memory after a minute, at the end, most, MB | 178 | 90, 105, 105 | ended |
| its rise in the second half, MB an hour | 10 | 30: FAILS | ended |
| p99 of an honest client before, and 2 s after, ms | at most 3 times | 0.40, 0.90 | ended |
| a process that only wakes 200 times a second was late: p99 and worst, ms |  | 2.0, 30 |  |
| time of all cores with nothing to run, and taken by a hypervisor |  | 2%, 0.1% |  |

CoreDNS: it ended"""


def test_section() -> None:
    results = [LATE._replace(server=NATIVE), Soak(COREDNS, 60, ended="it ended")]
    assert section({"command": "`x`"}, results) == TABLE


def test_a_section_without_figures() -> None:
    found = section({"command": "`x`"}, [Soak(COREDNS, 60, ended="it ended")])
    assert found.splitlines()[-1] == "CoreDNS: it ended"
