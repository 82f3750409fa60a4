from __future__ import annotations

import pytest

from hsdns.load.errors import LoadError, naming_files


@pytest.mark.parametrize(
    ("error", "raised", "sentence"),
    [
        (FileNotFoundError(2, "No such file or directory", "names.txt"), LoadError, "names.txt: no such file or directory"),
        (PermissionError(13, "Permission denied", "report.html"), LoadError, "report.html: permission denied"),
        (OSError(98, "Address already in use"), OSError, "[Errno 98] Address already in use"),
        (LoadError("-rate: 0 is no rate"), LoadError, "-rate: 0 is no rate"),
    ],
)  # fmt: skip
def test_what_the_operator_reads(error: Exception, raised: type[Exception], sentence: str) -> None:
    with (
        pytest.raises(raised) as found,
        naming_files(),
    ):
        raise error
    assert str(found.value) == sentence
