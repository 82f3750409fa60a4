"""Whether a plugin has a capability: a runtime-checkable protocol, as plugin.py lists them.

Path: assemble.py and answer_table/policy.py ask what each server block can do.
Rule: isinstance() is asked once for each class: on Python 3.11 it takes 10 µs for a protocol, and a dozen of them for
      each of thousands of blocks were half a second of each reload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
_CAPACITY: Final = 1_000  # so that classes of modules that were loaded again are freed at last
_known: dict[tuple[type[Any], type[Any]], bool] = {}


def has(plugin: object, capability: type[T]) -> TypeIs[T]:
    """Whether it has, as isinstance() has said of the first one of its class."""
    key = type(plugin), capability
    found = _known.get(key)
    if found is None:
        if len(_known) >= _CAPACITY:
            _known.clear()
        found = _known[key] = isinstance(plugin, capability)
    return found
