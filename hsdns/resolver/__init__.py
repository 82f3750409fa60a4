"""Models of stub resolvers: glibc, musl, Go and c-ares.

Path: resolver/cli.py -> here; nothing of the path of a query uses it.
Rule 1: no sockets and no clocks: a model returns packets and takes answers, and the time is an argument.
Rule 2: a model sends the packets that the library was measured to send (tests/resolver/test_traces.py); docs/resolve.md
        lists behaviour that was not measured.
"""

from __future__ import annotations

from typing import Final

from hsdns.resolver.cares import CAres
from hsdns.resolver.glibc import Glibc
from hsdns.resolver.go import Go
from hsdns.resolver.model import Model
from hsdns.resolver.musl import Musl, OldMusl

MODELS: Final[dict[str, type[Model]]] = {
    model.name: model for model in (Glibc, Musl, OldMusl, Go, CAres)
}
USUAL: Final = ("glibc", "musl", "go", "c-ares")  # the default
