from pathlib import Path

import pytest

from hsdns.cli.flags import FlagError, parse_flags
from hsdns.load.cli.settings import FLAGS, LoadSettings, read_settings
from hsdns.load.errors import LoadError
from hsdns.load.schedule import Schedule, Stage
from tests.load.captures import SECOND, packet, pcap
from tests.load.test_replay import WEB, query

WHOLE = pcap([(at * SECOND, packet(query(WEB), client=at)) for at in range(1, 4)])


def settings(path: Path, octets: bytes, flags: str = "") -> LoadSettings:
    path.write_bytes(octets)
    return read_settings(parse_flags([*f"-replay {path}".split(), *flags.split()], FLAGS))


def test_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "c"
    found = settings(path, WHOLE, "-speed 2")
    assert found.schedule == Schedule((Stage(1.0, 3.0, 3.0),), "recorded", 1, 1)
    assert found.replay is not None
    assert found.replay.what == f"3 queries of {path}, 1 different ones, from 3 clients, at speed 2"
    cut = settings(path, WHOLE, "-time 1500ms")
    assert cut.replay is not None
    assert cut.replay.what == (
        f"2 queries of {path}, 1 different ones, from 2 clients, at speed 1; left out: after -time 1"
    )


def test_a_broken_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c"
    with pytest.raises(LoadError) as error:
        settings(path, WHOLE[:-1])
    assert str(error.value) == (
        f"{path} ends in packet 3; -replay-broken replays the 2 queries before"
    )
    found = settings(path, WHOLE[:-1], "-replay-broken")
    assert found.replay is not None
    assert found.replay.replay.queries == 2
    assert capsys.readouterr().err == f"{path} ends in packet 3; what is before is replayed\n"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("-speed 0", '-speed needs a number such as 2 or 0.5, found "0"'),
        ("-speed fast", '-speed needs a number such as 2 or 0.5, found "fast"'),
        ("-queries q", "-queries asks what is in another file; leave it or -replay out"),
        ("-rate 5", "-rate is that of the recording; -speed changes it; leave it or -replay out"),
        ("-arrival even", "-arrival is that of the recording; leave it or -replay out"),
        ("-source synthetic -zipf 1", "-zipf draws names of a cluster; leave it or -replay out"),
        ("-source synthetic -pods 1", "-pods look names up at times of their own; leave it or -replay out"),
        ("-max-rate 2 -speed 5", "-replay: 3 queries in a second are above the ceiling of 2; -max-rate 3 lifts it, a lower -speed stays below"),
        ("-max-time 1s", "-time: 2s is above the ceiling of 1s; -max-time 2s lifts it"),
    ],
)  # fmt: skip
def test_what_does_not_fit(tmp_path: Path, flags: str, sentence: str) -> None:
    with pytest.raises((FlagError, LoadError)) as error:
        settings(tmp_path / "c", WHOLE, flags)
    assert str(error.value) == sentence


def test_flags_of_a_replay_without_one() -> None:
    with pytest.raises(FlagError) as error:
        read_settings(parse_flags(["-queries", "q", "-speed", "2"], FLAGS))
    assert str(error.value) == "-speed needs -replay"
