"""Makes the changes of a cluster: endpoints scale, roll out, change readiness, are killed and get new addresses.

Path: churn.py calls it for each change -> here; objects come from sources/synthetic.py or here.
Rule 1: the same slices, kinds and seed give the same changes.
Rule 2: a change replaces one EndpointSlice by another that differs in one endpoint, as an endpoint controller would
        write it.  Only one endpoint has an address at a time, and an address is reused only after all others.
Rule 3: a change that is impossible for a slice becomes the next kind that is possible: an empty one can only grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from msgspec import structs

from hsdns.cluster.objects import Endpoint, EndpointConditions, EndpointSlice
from hsdns.load.errors import LoadError
from hsdns.load.questions import read_shares

SCALE: Final = "scale"  # one endpoint more or less, between none and twice the initial number
# The endpoints of a slice get new addresses one by one, with a change each.
ROLLOUT: Final = "rollout"
READY: Final = "ready"  # an endpoint becomes ready or not ready
# An endpoint is removed; the next kill restores a removed one with another address.
KILL: Final = "kill"
RENUMBER: Final = "renumber"  # an endpoint gets another address
KINDS: Final = (SCALE, ROLLOUT, READY, KILL, RENUMBER)
DEFAULT: Final = {RENUMBER: 1}
READY_CONDITIONS: Final = EndpointConditions(ready=True, serving=True, terminating=False)
_NOT_READY: Final = EndpointConditions(ready=False, serving=False, terminating=False)


def read_kinds(text: str) -> dict[str, int]:
    """Read -churn-kinds: `KIND=SHARE`, separated by commas; raise LoadError.  Shares are relative to their sum."""
    nothing = ", so nothing would change"
    return read_shares(text, KINDS, "churn-kinds", "kind of change", example=2, nothing=nothing)


class Changes:
    """Changes of slices that have endpoints; `addresses` are those that no endpoint has."""

    def __init__(
        self,
        slices: Iterable[EndpointSlice],
        kinds: Mapping[str, int],
        seed: int,
        addresses: Iterable[str],
    ) -> None:
        self.slices = list(slices)
        if not any(each.endpoints for each in self.slices):
            raise LoadError("--churn: a cluster without endpoints has nothing to change")
        self._most = [2 * len(each.endpoints or ()) for each in self.slices]
        self._kinds, self._shares = list(kinds), list(kinds.values())
        self._random = Random(seed)
        self._free = deque(addresses)
        self._gone: deque[tuple[int, Endpoint]] = deque()  # slices, and killed endpoints
        # Slices, and the addresses in them that are still to be replaced.
        self._rolling: deque[tuple[int, str]] = deque()
        # By slice, the endpoints that scaling has removed and may add again.
        self._spare: dict[int, list[Endpoint]] = {}
        self._added = 0

    def next(self) -> EndpointSlice:
        """Make the next change; return the new slice."""
        (kind,) = self._random.choices(self._kinds, self._shares)
        make: Callable[[], int | None] = getattr(self, f"_{kind}")
        at = make()
        while at is None:  # this slice had nothing to change: try another
            at = self._scale()
        return self.slices[at]

    # Each kind returns the index of the changed slice, or None if there was nothing to change.

    def _scale(self) -> int | None:
        at = self._random.randrange(len(self.slices))
        endpoints = self._endpoints(at)
        if len(endpoints) < self._most[at] and (not endpoints or self._random.random() < 0.5):
            return self._add(at, self._another(at, endpoints))
        if not endpoints:
            return None
        self._spare.setdefault(at, []).append(self._remove(at, len(endpoints) - 1))
        return at

    def _rollout(self) -> int | None:
        if not self._rolling:
            at = self._random.randrange(len(self.slices))
            self._rolling.extend((at, _address(each)) for each in self._endpoints(at))
        while self._rolling:
            at, address = self._rolling.popleft()
            addresses = [_address(each) for each in self._endpoints(at)]
            if address in addresses:
                return self._replace(at, addresses.index(address))
        return None

    def _ready(self) -> int | None:
        found = self._one()
        if found is None:
            return None
        at, number = found
        endpoints = self._endpoints(at)
        conditions = endpoints[number].conditions
        is_ready = conditions is None or conditions.ready is not False
        now = _NOT_READY if is_ready else READY_CONDITIONS
        endpoints[number] = structs.replace(endpoints[number], conditions=now)
        return self._put(at, endpoints)

    def _kill(self) -> int | None:
        found = self._one()
        if self._gone and (found is None or self._random.random() < 0.5):
            return self._add(*self._gone.popleft())
        if found is None:
            return None
        self._gone.append((found[0], self._remove(*found)))
        return found[0]

    def _renumber(self) -> int | None:
        found = self._one()
        return None if found is None else self._replace(*found)

    def _one(self) -> tuple[int, int] | None:
        """The indexes of a slice and one of its endpoints; None if the slice has none."""
        at = self._random.randrange(len(self.slices))
        count = len(self._endpoints(at))
        return (at, self._random.randrange(count)) if count else None

    def _another(self, at: int, endpoints: list[Endpoint]) -> Endpoint:
        """An additional endpoint: one that scaling removed, or a new one."""
        spare = self._spare.get(at)
        if spare:
            return spare.pop()
        self._added += 1
        return Endpoint(
            hostname=next((f"added-{self._added}" for each in endpoints if each.hostname), None)
        )

    def _endpoints(self, at: int) -> list[Endpoint]:
        return list(self.slices[at].endpoints or ())

    def _add(self, at: int, endpoint: Endpoint) -> int:
        return self._put(at, [*self._endpoints(at), self._with_new_address(endpoint)])

    def _remove(self, at: int, number: int) -> Endpoint:
        endpoints = self._endpoints(at)
        gone = endpoints.pop(number)
        self._free.append(_address(gone))
        self._put(at, endpoints)
        return gone

    def _replace(self, at: int, number: int) -> int:
        endpoints = self._endpoints(at)
        self._free.append(_address(endpoints[number]))
        endpoints[number] = self._with_new_address(endpoints[number])
        return self._put(at, endpoints)

    def _with_new_address(self, endpoint: Endpoint) -> Endpoint:
        addresses = [self._free.popleft()]
        return structs.replace(endpoint, addresses=addresses, conditions=READY_CONDITIONS)

    def _put(self, at: int, endpoints: list[Endpoint]) -> int:
        self.slices[at] = structs.replace(self.slices[at], endpoints=endpoints)
        return at


def _address(endpoint: Endpoint) -> str:
    assert endpoint.addresses, "the API requires one"
    return endpoint.addresses[0]
