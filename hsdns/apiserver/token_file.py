"""Bearer token in a file that is renewed, such as the token of a service account by the kubelet.

Path: in_cluster.py and kubeconfig.py (`tokenFile`) -> Access.authorization.
Rule 1: the file is read at most once a minute (monotonic clock), and at once after the server refused the token.
Rule 2: if the file cannot be read, the previous token stays in use, with one warning.
Source: client-go transport/token_source.go (cachingTokenSource, fileTokenSource).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hsdns.apiserver.transport import Unreachable

REREAD: Final = 60.0  # seconds; tokens of service accounts are renewed at 80 % of an hour


class TokenFile:
    """The token in a file; `now` is a monotonic clock in seconds."""

    def __init__(self, path: str, now: Callable[[], float], warn: Callable[[str], None]) -> None:
        self.path = path
        self._now = now
        self._warn = warn
        self._token = ""
        self._read_at: float | None = None
        self._warned = ""

    def authorization(self) -> str:
        """Return the value of the Authorization header; raise Unreachable if there was never a token."""
        now = self._now()
        if self._read_at is None or now - self._read_at >= REREAD:
            self._read()
            self._read_at = now
        return f"Bearer {self._token}"

    def invalidate(self) -> None:
        """Read the file before the next use."""
        self._read_at = None

    def _read(self) -> None:
        try:
            self._token = read_token(self.path)
        except ValueError as error:
            if not self._token:
                raise Unreachable(str(error)) from None
            if str(error) != self._warned:
                self._warned = str(error)
                self._warn(f"{error}; still using the previous token")
        else:
            self._warned = ""


def read_token(path: str) -> str:
    """Read a token; raise ValueError with a message that does not contain it."""
    try:
        token = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"cannot read the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = "\0"
    if not token:
        raise ValueError(f"the token file {path} is empty")
    if not all("!" <= character <= "~" for character in token):
        raise ValueError(
            f"the token file {path} does not contain a token: it must be a single ASCII word"
        )
    return token
