import pytest

from hsdns.sources.manifest_file import read_manifest_file
from loadtest.pressure import hostile_yaml
from loadtest.pressure.hostile_yaml import FILES, LEN


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_length_and_is_read_or_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = FILES[name]()
    assert 0.9 * LEN < len(content) <= LEN or name.startswith("aliases in")
    monkeypatch.setattr(hostile_yaml, "LEN", 50_000)
    read_manifest_file(FILES[name](), "a.yaml")
