"""Whether the files of a Corefile have changed, and that an unchanged one is not parsed."""

from __future__ import annotations

import pytest

from hsdns.corefile.parser import CorefileFiles, parse
from hsdns.corefile.tree import Corefile, CorefileError, Position
from hsdns.plugin import Plugin
from hsdns.server.lifecycle import CorefileReader
from tests.support.disk import Disk

COREFILE = ". {\n    import part\n    import *.more\n}\n"

PARSED = "(parsed)"
FILES = {"Corefile": COREFILE, "part": "whoami\n", "one.more": "errors\n"}


def reader_of(disk: Disk) -> CorefileReader:
    files = CorefileFiles(disk)

    def load() -> object:
        disk.opened.append(PARSED)
        files.start()
        return parse(
            "Corefile", environ={}, known_directives=("whoami", "errors", "log"), files=files
        )

    return CorefileReader(load, files.have_changed)  # type: ignore[arg-type]  # a Corefile


@pytest.mark.parametrize(
    ("changed", "is_parsed", "is_new"),
    [
        pytest.param({}, False, False, id="nothing"),
        pytest.param({"beside": "x"}, False, False, id="another-file"),
        pytest.param({"Corefile": COREFILE + "# a comment\n"}, True, False, id="comment"),
        pytest.param({"Corefile": COREFILE.replace(".", "a.org", 1)}, True, True, id="corefile"),
        pytest.param({"part": "log\n"}, True, True, id="import"),
        pytest.param({"two.more": "log\n"}, True, True, id="new-file-of-a-glob"),
        pytest.param({"one.more": None}, True, True, id="file-of-a-glob-that-is-gone"),
    ],
)
def test_only_a_change_is_parsed(
    changed: dict[str, str | None], is_parsed: bool, is_new: bool
) -> None:
    disk = Disk(FILES)
    reader = reader_of(disk)
    assert reader.read() is not None
    for path, text in changed.items():
        if text is None:
            del disk.files[path]
        else:
            disk.files[path] = text
    assert (reader.read(only_if_changed=True) is not None) is is_new
    assert disk.opened.count(PARSED) == 1 + is_parsed
    assert reader.read(only_if_changed=True) is None
    assert disk.opened.count(PARSED) == 1 + is_parsed


def test_a_broken_file_is_parsed_once_and_again_when_it_is_mended() -> None:
    disk = Disk(FILES)
    reader = reader_of(disk)
    reader.read()
    text = disk.files.pop("Corefile")
    with pytest.raises(CorefileError):
        reader.read(only_if_changed=True)
    assert reader.read(only_if_changed=True) is None
    assert disk.opened.count(PARSED) == 2
    disk.files["Corefile"] = text + "# mended\n"
    assert reader.read(only_if_changed=True) is not None


class File:
    """A Corefile of which only the digest is wanted; "" cannot be parsed."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def load(self) -> Corefile:
        if not self.digest:
            raise CorefileError(Position("Corefile", 1, 1), "broken")
        return Corefile("Corefile", (), (), self.digest)


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
