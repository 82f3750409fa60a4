"""Removes credentials from the text of a server, a proxy or a plugin before it gets into a message.

Path: client.py, kubeconfig_process.py and sources/api_server.py pass the text that they are about to report -> here.
Rule: known secrets are removed, even if only their beginning is left, and so is text that looks like a secret: a server
      may echo one that a proxy added, and a plugin may print one that this process has never seen.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"
MAX_SECRETS: Final = 16  # a token is renewed about once an hour, and two may be in use then
_BEGINNING: Final = 8  # characters of a longer secret that suffice to recognise it
_TOKEN: Final = r"(?:[\w.~+/=%-]|\\/)"  # as in RFC 6750 section 2.1, in a URL, and with JSON's other form of "/"
_LOOKS_SECRET: Final = re.compile(
    # After the scheme of an Authorization header, if it is not an English word.
    rf"(?i:\b(?:bearer|basic|negotiate)\b[\s:\"']+)(?=(?:[A-Za-z.~+/=%-]|\\/)*[\d_]|{_TOKEN}{{20}})"
    rf"(?P<credential>{_TOKEN}{{4,}})"
    # A field of JSON, such as the output of an exec plugin or an OIDC provider.
    r"|\\?[\"'](?i:(?:\w+[_-])?token|\w*password|client[_-]?secret|client-?key-?data)\\?[\"']\s*:\s*"
    r"\\?[\"'](?P<field>(?:[^\"'\\]|\\/)*)"
    # A JSON Web Token, which begins with {" in base64.
    rf"|(?P<jwt>\beyJ{_TOKEN}{{5,}})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<key>[^-]*)"
)


class Redaction:
    """The secrets of one connection; the last MAX_SECRETS are known."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: dict[str, re.Pattern[str]] = {}
        for secret in secrets:
            self.remember(secret)

    def remember(self, secret: str) -> None:
        """Add a secret; the words before it in the value of a header, such as Bearer, are not secret."""
        word = secret.split()[-1] if secret.strip() else ""
        if len(word) < 3 or word in self._known:
            return
        if secret[:6].lower() == "basic ":
            self.remember(_password(word))
        beginning = re.escape(word[:_BEGINNING]).replace("/", r"\\?/")
        rest = rf"{_TOKEN}*" if len(word) > _BEGINNING else ""
        self._known[word] = re.compile(beginning + rest)
        if len(self._known) > MAX_SECRETS:
            del self._known[next(iter(self._known))]

    def __call__(self, text: str) -> str:
        """Return text without secrets."""
        for pattern in list(self._known.values()):  # another thread may add one
            text = pattern.sub(HIDDEN, text)
        return _LOOKS_SECRET.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    """Replace the matched group."""
    start, end = found.span(str(found.lastgroup))
    whole, at = found.string, found.start()
    return whole[at:start] + HIDDEN + whole[end : found.end()]


def _password(basic: str) -> str:
    """Return the password in the credentials of Basic authentication (RFC 7617)."""
    try:
        return base64.b64decode(basic).decode("utf-8", "replace").partition(":")[2]
    except binascii.Error:
        return ""
