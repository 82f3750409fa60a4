"""The inputs that the fuzzer begins with and those that it found earlier; `make fuzz` looks for more."""

import pytest

from hsdns.server.doh_http2 import Http2
from hsdns.wire.decode import decode_reply
from loadtest.pressure.http2 import PREFACE, SETTINGS, frame
from tests.support.fuzz.fuzzer import Target, execute
from tests.support.fuzz.seeds import seeds
from tests.support.fuzz.targets import QUERY, TARGETS

INPUTS = [
    pytest.param(target, octets, id=f"{target.name} {name}")
    for target in TARGETS
    for name, octets in seeds(target.name).items()
]


@pytest.mark.parametrize(("target", "octets"), INPUTS)
def test_input(target: Target, octets: bytes) -> None:
    assert execute(target, octets)


@pytest.mark.parametrize("octets", [b"", b"\0", bytes(12), b"\xff" * 300], ids=len)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nonsense(target: Target, octets: bytes) -> None:
    execute(target, octets)


def test_seeds_are_what_the_decoders_accept() -> None:
    replies = [decode_reply(octets, QUERY) for octets in seeds("reply").values()]
    assert {len(each.answer) for each in replies} >= {0, 1, 2, 40}
    connection = Http2(0.0)
    connection.feed(PREFACE + frame(SETTINGS, 0, 0) + seeds("http2")["seed-1"][1:], 0.0)
    requests = []
    while connection.has_waiting:
        requests.append(connection.step())
    assert [each.method for each in requests if each is not None] == ["GET", "GET"]
