"""Reads the Corefile at the start and at each reload.

Path: lifecycle.py calls it; cli/launch.py defines how a Corefile is parsed.
Rule 1: a file that cannot be read or used is tried once, not every 30 seconds.
Rule 2: an unchanged file is not parsed again; at a reload lifecycle.py reads in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from hsdns.corefile.tree import Corefile, CorefileError
from hsdns.plugin import Plugin, files_changed

log = logging.getLogger("hsdns.server")


class CorefileReader:
    """Remembers which Corefile was read last; `load` parses it again and raises CorefileError.

    `has_changed` returns whether `load` would read anything else than the last time.
    """

    def __init__(
        self, load: Callable[[], Corefile], has_changed: Callable[[], bool] = lambda: True
    ) -> None:
        self._load = load
        self._has_changed = has_changed
        self._last: str | None = None  # its digest, or the reason why it could not be read

    def read(self, *, only_if_changed: bool = False) -> Corefile | None:
        """Parse it; if only a change is wanted, return None for an unchanged Corefile.  Raise CorefileError."""
        last = self._last
        if only_if_changed and last is not None and not self._has_changed():
            return None
        try:
            corefile = self._load()
        except CorefileError as error:
            self._last = str(error)
            if only_if_changed and self._last == last:
                return None
            if last is not None:
                log.info("Reloading")
            raise
        self._last = corefile.digest
        return None if only_if_changed and self._last == last else corefile

    def read_for(self, plugins: Iterable[Plugin], *, only_if_changed: bool) -> Corefile | None:
        """As read(), but a changed file of a running plugin counts as a change, too."""
        if only_if_changed and files_changed(plugins):
            only_if_changed = False
        return self.read(only_if_changed=only_if_changed)
