import pytest

from hsdns.load.errors import LoadError
from hsdns.load.target import Target, read_targets


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["127.0.0.1"], [("127.0.0.1 port 53", "127.0.0.1", 53)]),
        (["127.0.0.1:1053"], [("127.0.0.1 port 1053", "127.0.0.1", 1053)]),
        (["::1"], [("::1 port 53", "::1", 53)]),
        (["[::1]"], [("::1 port 53", "::1", 53)]),
        (["[::1]:1053"], [("::1 port 1053", "::1", 1053)]),
        (["hsdns=10.96.0.10", "Core DNS=10.96.0.11:54"], [("hsdns", "10.96.0.10", 53), ("Core DNS", "10.96.0.11", 54)]),
        (["a=b=127.0.0.1"], [("a=b", "127.0.0.1", 53)]),
        (["192.0.2.1"], [("192.0.2.1 port 53", "192.0.2.1", 53)]),
    ],
)  # fmt: skip
def test_targets(words: list[str], found: list[tuple[str, str, int]]) -> None:
    assert read_targets(words, 53, ["192.0.2.1"]) == [Target(*each) for each in found]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["=127.0.0.1"], '-server: "=127.0.0.1" has an empty name; write NAME=ADDRESS, or only ADDRESS'),
        (["127.0.0.1:70000"], '-server: "70000" in "127.0.0.1:70000" is no port; write ADDRESS:PORT with one from 1 to 65535'),
        (["[::1]:x"], '-server: "x" in "[::1]:x" is no port; write ADDRESS:PORT with one from 1 to 65535'),
        (["a=127.0.0.1", "a=127.0.0.2"], '-server: "a" is given twice; give each server a name of its own, as NAME=ADDRESS'),
        (["127.0.0.1", "127.0.0.1:53"], '-server: "127.0.0.1 port 53" is given twice; give each server a name of its own, as NAME=ADDRESS'),
        (["kube-dns"], '"kube-dns" is no IP address; -server takes one, such as 127.0.0.1'),
        (["127.0.0.1", "8.8.8.8:53"], "8.8.8.8 is neither loopback nor private: load there is an attack unless the server is yours; if it is, add -i-own-this 8.8.8.8"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_targets(words, 53, [])
    assert str(error.value) == sentence
