from __future__ import annotations

import pytest

from hsdns.load.errors import LoadError, sentence_of


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FileNotFoundError(2, "No such file or directory", "names.txt"), "names.txt: no such file or directory"),
        (PermissionError(13, "Permission denied", "report.html"), "report.html: permission denied"),
        (OSError(98, "Address already in use"), "[Errno 98] Address already in use"),
        (LoadError("-rate: 0 is no rate"), "-rate: 0 is no rate"),
    ],
)  # fmt: skip
def test_what_the_operator_reads(error: Exception, sentence: str) -> None:
    assert sentence_of(error) == sentence
