from pathlib import Path

import pytest

from hsdns.apiserver.access import TokenFile, read_token
from hsdns.apiserver.transport import Unreachable


class Setting:
    """A token file with its clock and warnings."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token"
        self.now = 1000.0
        self.warnings: list[str] = []
        self.token = TokenFile(str(self.path), lambda: self.now, self.warnings.append)


def test_read_again_after_a_minute(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.path.write_text("first\n")
    assert setting.token.authorization() == "Bearer first"
    setting.path.write_text("second\n")
    setting.now += 59.9
    assert setting.token.authorization() == "Bearer first"
    setting.now += 0.1
    assert setting.token.authorization() == "Bearer second"


def test_a_file_that_is_gone_is_a_warning_once(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.path.write_text("first")
    setting.token.authorization()
    setting.path.unlink()
    for _ in range(3):
        setting.now += 60
        assert setting.token.authorization() == "Bearer first"
    assert setting.warnings == [
        f"cannot read the token file {setting.path}: No such file or directory; "
        "still using the previous token"
    ]
    setting.path.write_text("second")
    setting.now += 60
    assert setting.token.authorization() == "Bearer second"
    setting.path.unlink()
    setting.now += 60
    setting.token.authorization()
    assert len(setting.warnings) == 2


def test_never_a_token(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="cannot read the token file"):
        Setting(tmp_path).token.authorization()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b" \n", "is empty", id="empty"),
        pytest.param(b"hunter2 hunter2", "does not contain a token", id="two-words"),
        pytest.param("hünter2".encode(), "does not contain a token", id="not-ascii"),
        pytest.param(b"\xff\xfe", "does not contain a token", id="not-text"),
    ],
)
def test_no_token(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_token(str(path))
    assert "nter2" not in str(caught.value)
