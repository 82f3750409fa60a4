"""Stands in for a transport, a protocol or a listener of which only the calls are wanted.

Path: tests only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Noted:
    """Notes which of its methods are called, in `calls`."""

    def __init__(self, calls: list[Any] | None = None, prefix: str = "") -> None:
        self.calls: list[Any] = [] if calls is None else calls
        self._prefix = prefix

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(self._prefix + name)
