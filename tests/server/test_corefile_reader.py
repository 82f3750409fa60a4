"""When a Corefile is read anew, and how often a bad one is tried."""

import logging

import pytest

from hsdns.corefile.tree import Corefile, CorefileError, Position
from hsdns.plugin import Plugin
from hsdns.server.corefile_reader import CorefileReader


class File:
    """A Corefile of which only the digest is wanted; "" cannot be parsed."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def load(self) -> Corefile:
        if not self.digest:
            raise CorefileError(Position("Corefile", 1, 1), "broken")
        return Corefile("Corefile", (), (), self.digest)


def test_only_a_change_is_read() -> None:
    file = File("one")
    reader = CorefileReader(file.load)
    assert reader.read() is not None
    assert reader.read(only_if_changed=True) is None
    assert reader.read() is not None
    file.digest = "two"
    assert reader.read(only_if_changed=True) is not None


class Zone(Plugin):
    """A plugin whose file has changed, or not; it tells of a change once."""

    def __init__(self, *, has_changed: bool) -> None:
        self.has_changed = has_changed

    def files_changed(self) -> bool:
        found, self.has_changed = self.has_changed, False
        return found


def test_a_file_of_a_plugin_is_a_change() -> None:
    reader, zones = (
        CorefileReader(File("one").load),
        [Zone(has_changed=each) for each in (False, True)],
    )
    reader.read()
    found = [reader.read_for(zones, only_if_changed=each) is None for each in (True, True, False)]
    assert found == [False, True, False]


def test_broken_file_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    file = File("one")
    reader = CorefileReader(file.load)
    reader.read()
    file.digest = ""
    with caplog.at_level(logging.INFO, "hsdns"):
        with pytest.raises(CorefileError, match="broken"):
            reader.read(only_if_changed=True)
        assert reader.read(only_if_changed=True) is None
        with pytest.raises(CorefileError, match="broken"):
            reader.read()
    assert caplog.messages == ["Reloading", "Reloading"]


def test_start_with_a_broken_file_is_no_reload(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hsdns"), pytest.raises(CorefileError, match="broken"):
        CorefileReader(File("").load).read()
    assert caplog.messages == []
