from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.redaction import HIDDEN, MAX_SECRETS, Redaction

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-_x"
KNOWN = Redaction(
    ["Bearer s3cret-Token/with+chars==", "Basic amFuZTpodW50ZXIy", "pw", "a/b/c/d/e/f/g"]
)
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("token s3cret-Token/with+chars== is wrong", "token [hidden] is wrong", id="known"),
        pytest.param("you sent s3cret-Tok", "you sent [hidden]", id="cut"),
        pytest.param("<b>s3cret-Token/with+chars==</b>", "<b>[hidden]</b>", id="html"),
        pytest.param('{"message":"s3cret-Token\\/with+chars=="}', '{"message":"[hidden]"}', id="escaped"),
        pytest.param('{"message":"a\\/b\\/c\\/d\\/e\\/f\\/g\\""}', '{"message":"[hidden]\\""}', id="escaped-beginning"),
        pytest.param('"Bearer abc\\/def\\/123"', '"Bearer [hidden]"', id="escaped-bearer"),
        pytest.param('"token": "ab\\/cd"', '"token": "[hidden]"', id="escaped-field"),
        pytest.param("Basic amFuZTpodW50ZXIy", "Basic [hidden]", id="basic"),
        pytest.param("jane has hunter2", "jane has [hidden]", id="password-of-basic"),
        pytest.param("Authorization: Bearer abc123def", "Authorization: Bearer [hidden]", id="bearer"),
        pytest.param("authorization: BEARER\tabc123def.", "authorization: BEARER\t[hidden]", id="case"),
        pytest.param('"Bearer aaaaaaaaaaaaaaaaaaaaaaa"', '"Bearer [hidden]"', id="letters-only"),
        pytest.param(f"invalid token: {JWT}", "invalid token: [hidden]", id="jwt"),
        pytest.param(f"invalid token: {JWT[:20]}", "invalid token: [hidden]", id="jwt-cut"),
        pytest.param('{"status": {"token": "aaaa"}}', '{"status": {"token": "[hidden]"}}', id="json"),
        pytest.param('{\\"id_token\\":\\"aaaa\\"}', '{\\"id_token\\":\\"[hidden]\\"}', id="escaped-json"),
        pytest.param("{'refresh-token': 'aaaa'}", "{'refresh-token': '[hidden]'}", id="python"),
        pytest.param('"client_secret":"x"', '"client_secret":"[hidden]"', id="client-secret"),
        pytest.param("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END", "-----BEGIN RSA PRIVATE KEY-----[hidden]-----END", id="key"),
        pytest.param("Unauthorized", "Unauthorized", id="unauthorized"),
        pytest.param("the bearer token has expired", "the bearer token has expired", id="english"),
        pytest.param("Bearer authentication required", "Bearer authentication required", id="english-too"),
        pytest.param('services is forbidden: User "system:serviceaccount:kube-system:coredns" cannot list resource "services"',
                     'services is forbidden: User "system:serviceaccount:kube-system:coredns" cannot list resource "services"', id="forbidden"),
        pytest.param("invalid bearer token, token lookup failed", "invalid bearer token, token lookup failed", id="api-server"),
        pytest.param("https://10.96.0.1:443 refuses connections", "https://10.96.0.1:443 refuses connections", id="address"),
    ],
)  # fmt: skip
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
