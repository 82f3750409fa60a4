from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.redaction import HIDDEN, MAX_SECRETS, Redaction
from tests.support.tables import columns

KNOWN = Redaction(
    ["Bearer s3cret-Token/with+chars==", "Basic amFuZTpodW50ZXIy", "pw", "a/b/c/d/e/f/g"]
)
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="


@pytest.mark.parametrize(
    ("text", "shown"), columns(Path(__file__).with_name("redacted.txt"), "texts")
)
def test_text(text: str, shown: str) -> None:
    assert KNOWN(text) == shown
    assert KNOWN(shown) == shown


@given(st.text(), st.text(CHARACTERS, min_size=9, max_size=200), st.text(), st.integers(9))
def test_no_part_of_a_known_token_is_left(before: str, token: str, after: str, length: int) -> None:
    part = token[:length]
    found = Redaction([f"Bearer {token}"])(f"{before} {part} {after}")
    assert part not in found.replace(HIDDEN, " ") or part in before + after


def test_renewed_tokens_are_known_for_a_while() -> None:
    found = Redaction()
    for number in range(MAX_SECRETS + 1):
        found.remember(f"Bearer {number:03}-is-the-token")
    assert found("000-is-the-token 001-is-the-token") == "000-is-the-token [hidden]"
