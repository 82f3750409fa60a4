import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamReset,
)
from h2.exceptions import DenialOfServiceError
from h2.settings import SettingCodes, Settings

from loadtest.pressure.http2 import (
    ATTACKS,
    GOAWAY,
    LONG_PATH,
    SETTINGS,
    Frame,
    FrameScanner,
    dns_path,
    frame,
    opening,
)

PATH = dns_path(b"\0\0\1\0")


def server() -> H2Connection:
    made = H2Connection(H2Configuration(client_side=False, header_encoding=None))
    made.local_settings = Settings(
        client=False, initial_values={SettingCodes.MAX_HEADER_LIST_SIZE: 100_000}
    )
    made.initiate_connection()
    made.receive_data(opening())
    made.data_to_send()
    return made


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("reset", [RequestReceived, StreamReset] * 3),
        ("requests", [RequestReceived] * 3),
        ("ping", [PingReceived] * 3),
        ("settings", [RemoteSettingsChanged] * 3),
        ("paths", [RequestReceived] * 3),
        ("empty", [RequestReceived, DataReceived, DataReceived]),
        ("continuation", []),
    ],
)
def test_attack_is_http2(kind: str, expected: list[type]) -> None:
    events = server().receive_data(ATTACKS[kind].write(1, 3, PATH))
    wanted = tuple(set(expected))
    assert [type(each) for each in events if wanted and isinstance(each, wanted)] == expected
    assert not any(isinstance(each, ConnectionTerminated) for each in events)


def test_a_block_that_expands() -> None:
    with pytest.raises(DenialOfServiceError):
        server().receive_data(ATTACKS["hpack"].write(1, 1, PATH))


def test_every_attack_has_a_row() -> None:
    assert set(ATTACKS) == {
        "reset",
        "requests",
        "ping",
        "settings",
        "paths",
        "empty",
        "continuation",
        "hpack",
    }


def test_request() -> None:
    (event, *_) = server().receive_data(ATTACKS["requests"].write(7, 1, PATH))
    assert isinstance(event, RequestReceived)
    assert event.stream_id == 7
    assert event.headers == [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"127.0.0.1"),
        (b":path", b"/dns-query?dns=AAABAA"),
    ]


def test_a_long_path_takes_several_frames() -> None:
    connection = server()
    events = connection.receive_data(ATTACKS["paths"].write(1, 1, PATH))
    (path,) = (dict(each.headers)[b":path"] for each in events if isinstance(each, RequestReceived))
    assert len(path) > LONG_PATH


def test_a_block_without_end_goes_on() -> None:
    attack, connection = ATTACKS["continuation"], server()
    connection.receive_data(attack.write(1, 2, PATH) + attack.write(5, 2, PATH))
    frames = list(FrameScanner().feed(attack.write(5, 2, PATH)))
    assert [(each.kind, each.flags, each.stream) for each in frames] == [(9, 0, 1)] * 2


def test_scanner_waits_for_whole_frames() -> None:
    octets = frame(SETTINGS, 0, 0) + frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0b")
    scanner = FrameScanner()
    found = [each for at in range(len(octets)) for each in scanner.feed(octets[at : at + 1])]
    assert found == [Frame(SETTINGS, 0, 0, b""), Frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0b")]
