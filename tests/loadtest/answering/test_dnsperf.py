from pathlib import Path

import pytest

from loadtest.answering.cluster import Question
from loadtest.answering.dnsperf import Counted, counted, latencies, write_questions
from loadtest.process import BenchmarkError

PRINTED = """\
[Status] Sending queries (to 127.0.0.1:20001)
> NOERROR svc-1.ns-0.svc.cluster.local A 0.000061
> NXDOMAIN absent.cluster.local A 0.001500
> T late.cluster.local A
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         272105
  Queries completed:    272104 (100.00%)
  Queries lost:         1 (0.00%)

  Response codes:       NOERROR 272104 (100.00%)
  Average packet size:  request 46, response 208
  Run time (s):         2.000412
  Queries per second:   136023.979060
"""


def test_statistics() -> None:
    assert counted(PRINTED) == Counted(272105, 272104, 2.000412)


def test_latencies_are_those_of_answered_queries() -> None:
    assert latencies(PRINTED) == [0.000061, 0.0015]


def test_what_is_no_statistics_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="Queries sent"):
        counted("Error: unable to open input file")


def test_questions(tmp_path: Path) -> None:
    write_questions(tmp_path / "q", [Question("a.b", "A"), Question("c", "SRV")])
    assert (tmp_path / "q").read_text() == "a.b A\nc SRV\n"
