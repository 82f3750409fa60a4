"""Which names a reader wants to see: the parameters `namespace` and `name`.

Path: routes.py -> queries.py and top.py -> here.
Rule: a name is in a namespace if it has the namespace's place in a zone of a kubernetes block, whether the name or the
      namespace exists or not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.wire.name import Name

FILTERS: Final = ("namespace", "name")
KINDS: Final = (b"svc", b"pod")  # the label after that of the namespace


class QueryFilter(NamedTuple):
    """What is wanted: a namespace (its label) of the zones, and names at and below one; None: all of them."""

    zones: tuple[Name, ...] = ()
    namespace: bytes | None = None
    name: Name | None = None

    @classmethod
    def of(cls, door: Door, asked: Asked) -> QueryFilter:
        """Read the parameters; raise HttpRefusal."""
        namespace, text = (asked.parameters.get(name) for name in FILTERS)
        name = None
        if text is not None:
            try:
                name = Name.from_text(text)
            except ValueError as error:
                raise HttpRefusal(400, f'name: "{text}" is not a domain name: {error}') from None
        if namespace is None:
            return cls(name=name)
        if not namespace or "." in namespace:
            raise HttpRefusal(400, f'namespace is one label, such as default, not "{namespace}"')
        return cls(cluster_zones(door), namespace.lower().encode(), name)

    def has(self, name: Name) -> bool:
        """Whether a name is wanted."""
        if self.name is not None and not name.is_at_or_below(self.name):
            return False
        return self.namespace is None or namespace_of(name, self.zones) == self.namespace


def cluster_zones(door: Door) -> tuple[Name, ...]:
    """The zones of kubernetes blocks that have names of Services."""
    blocks = kubernetes_blocks(door.serving())
    return tuple(dict.fromkeys(zone for each in blocks for zone in each.answer_set().forward_zones))


def namespace_of(name: Name, zones: tuple[Name, ...]) -> bytes | None:
    """The label at a namespace's place, in lower case; None if the name has no such place."""
    zone = name.longest_of(zones)
    labels = () if zone is None else name.below(zone)
    return labels[-2] if len(labels) > 1 and labels[-1] in KINDS else None
