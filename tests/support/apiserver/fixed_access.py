"""An access to an API server that never changes, as the source of a client.

Path: tests only.
"""

from __future__ import annotations

from hsdns.apiserver.access import Access


class FixedAccess:
    """An AccessSource with a given Access, which records what is invalidated."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.server = access.server
        self.forgotten: list[Access] = []

    def check(self) -> list[str]:
        """Report no problems."""
        return []

    async def current(self) -> Access:
        """The access."""
        return self.access

    def invalidate(self, access: Access) -> None:
        """Record it."""
        self.forgotten.append(access)
