import os
import sys
from pathlib import Path

import pytest

from loadtest.pressure.clients import Client, Counts, Flood, Tools, read_counts
from loadtest.pressure.corefile import Ports
from loadtest.pressure.priority import LOW
from loadtest.process import BenchmarkError

PORTS = Ports(1, 2, 3, 4, 5, 6, 7)


def test_counts() -> None:
    found = read_counts('{"offered": 10, "sent": 8, "answered": 6, "failed": 2}\n')
    assert found == Counts(10, 8, 6, 2)
    assert found.share == 0.5


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"sent": 1}'])
def test_what_are_no_counts(text: str) -> None:
    with pytest.raises(BenchmarkError, match="which are no counts"):
        read_counts(text)


def test_flood(tmp_path: Path) -> None:
    flood = Flood("x", ("*.a.example", "b.BIG"), 1000)
    words = flood.scaled(0.1).words(
        Tools(Path("asker"), Path("up"), tmp_path, "big.example"), PORTS, 5
    )
    names = tmp_path / "x.names"
    assert words == ("asker", "1", "100.0", "5", str(names), "127.0.0.2")
    assert names.read_text() == "*.a.example 1\nb.big.example 1\n"


def test_a_client_that_yields_has_a_low_priority_in_a_session_of_its_own() -> None:
    words = (sys.executable, "-c", "import sys; sys.stdin.read()")
    with Client(words, 5, yields=True) as client:
        pid = client._process.pid
        assert os.getsid(pid) == pid
        assert os.getpriority(os.PRIO_PROCESS, pid) == LOW
        group = Path(f"/proc/{pid}/autogroup")
        assert not group.exists() or group.read_text().endswith(f"nice {LOW}\n")
