"""Selects names for a reader: the parameters `namespace` and `name`.

Path: routes.py -> queries.py and top.py -> here.
Rule: a name belongs to a namespace if it has the namespace's label at the right place in a zone of a kubernetes block,
      even if the name or the namespace does not exist.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.wire.name import Name

FILTERS: Final = ("namespace", "name")
KINDS: Final = (b"svc", b"pod")  # the label that follows the namespace


class QueryFilter(NamedTuple):
    """A selection: a namespace (its label) in the zones, and the names at and below a name; None selects all."""

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
        """Whether a name is selected."""
        if self.name is not None and not name.is_at_or_below(self.name):
            return False
        return self.namespace is None or namespace_of(name, self.zones) == self.namespace


def cluster_zones(door: Door) -> tuple[Name, ...]:
    """The zones of kubernetes blocks that contain names of Services."""
    blocks = kubernetes_blocks(door.serving())
    return tuple(dict.fromkeys(zone for each in blocks for zone in each.answer_set().forward_zones))


def namespace_of(name: Name, zones: tuple[Name, ...]) -> bytes | None:
    """The label of the namespace in a name, in lower case; None if the name has no such label."""
    zone = name.longest_of(zones)
    labels = () if zone is None else name.below(zone)
    return labels[-2] if len(labels) > 1 and labels[-1] in KINDS else None
