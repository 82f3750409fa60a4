"""Sources of cluster objects, one per module.

Path: the Corefile property `source NAME ARGUMENT...` -> source_from -> the source's setup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from hsdns.corefile.tree import Token, did_you_mean

if TYPE_CHECKING:
    from hsdns.cluster.source import NamedSource

_CLASSES = {
    "manifests": ("hsdns.sources.manifests", "Manifests"),
    "replay": ("hsdns.sources.replay", "Replay"),
    "synthetic": ("hsdns.sources.synthetic", "Synthetic"),
}


class _Sources(Mapping[str, "type[NamedSource]"]):
    """The source classes by name; a class is imported when it is looked up, so that unused ones are not loaded."""

    def __getitem__(self, name: str) -> type[NamedSource]:
        module, class_name = _CLASSES[name]
        found: type[NamedSource] = getattr(import_module(module), class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


SOURCES: Final[Mapping[str, type[NamedSource]]] = _Sources()


def source_from(name: Token, args: Sequence[Token], base_dir: str) -> NamedSource:
    """Create the source with that name; raise CorefileError.  Paths are relative to `base_dir`."""
    if name.text == "kubeconfig":
        raise name.error(
            '"kubeconfig" is a property of its own: write "kubeconfig FILE" into the kubernetes block of a Corefile, '
            "in place of a source; a command takes the Corefile with -conf"
        )
    if name.text not in SOURCES:
        remedy = did_you_mean(name.text, SOURCES) or f"; known are {', '.join(SOURCES)}"
        raise name.error(f'unknown source "{name.text}"{remedy}')
    return SOURCES[name.text].setup(name, args, base_dir)
