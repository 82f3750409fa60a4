"""A Corefile in a ConfigMap, and the files that it imports: other values of it, and of ConfigMaps mounted beside it.

Path: judging.py (manifests, a dump, --conf) and cli/offline.py (a cluster) -> corefiles() -> parse().
Rule 1: where a Pod mounts the ConfigMap of the Corefile, its files are where its volumes have them.  Without one, each
        ConfigMap of the namespace may be mounted in any folder beside it.
Rule 2: what no known ConfigMap has is in `unknown`: it counts as empty or, for a server, is looked for on the disk.
"""

from __future__ import annotations

import fnmatch
import os.path
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hsdns.corefile.lexer import Files, Source

COREFILE: Final = "Corefile"


class ConfigMap(NamedTuple):
    """The values of a ConfigMap; `namespace` is "" where it is not known."""

    namespace: str
    name: str
    values: Mapping[str, Source]


class Mounted(Files):
    """The Corefile of a ConfigMap, and the files that it may import."""

    def __init__(
        self, main: ConfigMap, files: Mapping[str, Source], folder: str | None = None
    ) -> None:
        """Take files by path, where `folder` is that of the Corefile, or by file name, where it is not known."""
        self.main = main
        self.source = main.values[COREFILE]
        self.used: list[Source] = []
        self.unknown: set[str] = set()
        self.beside: Files | None = None  # where other files are read
        self._files, self._folder = files, folder

    def open_file(self, path: str) -> str | Source:
        """Read a file; raise OSError or ValueError."""
        found = self._files.get(self._key(path))
        if found is None:
            self.unknown.add(path)
            if self.beside is not None:
                return self.beside.open_file(path)
            raise FileNotFoundError(path)
        self.used.append(found)
        return found

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files that match a glob."""
        wanted = self._key(pattern)
        found = sorted(
            each
            for each in self._files
            if each.count("/") == wanted.count("/") and fnmatch.fnmatchcase(each, wanted)
        )
        if not found:
            self.unknown.add(pattern)
            if self.beside is not None:
                return self.beside.list_files(pattern)
        return [os.path.join(os.path.dirname(pattern), each) for each in found]

    def _key(self, path: str) -> str:
        """The path of a file in the Pod, or its name."""
        if self._folder is None:
            return os.path.basename(path)
        if not os.path.isabs(path):  # it begins with the folder of the manifest
            path = os.path.relpath(path, os.path.dirname(self.source.file))
        return os.path.normpath(os.path.join(self._folder, path))


def corefiles(
    config_maps: Sequence[ConfigMap], pods: Sequence[tuple[str, Mapping[str, Any]]] = ()
) -> Iterator[Mounted]:
    """The Corefiles of ConfigMaps; `pods` are namespaces and specs of Pods, which may mount them."""
    for main in config_maps:
        if COREFILE not in main.values:
            continue
        near = [each for each in config_maps if _is_near(each.namespace, main.namespace)]
        specs = [spec for namespace, spec in pods if _is_near(namespace, main.namespace)]
        mounts = next((found for each in specs if (found := _mounts(each, main, near))), None)
        if mounts is not None:
            yield Mounted(main, *mounts)
            continue
        files = dict[str, Source]()
        for each in (main, *(other for other in near if COREFILE not in other.values)):
            for key, source in each.values.items():
                if key != COREFILE:
                    files.setdefault(key, source)
        yield Mounted(main, files)


def _is_near(one: str, other: str) -> bool:
    return one == other or not one or not other


def _mounts(
    spec: Mapping[str, Any], main: ConfigMap, near: Sequence[ConfigMap]
) -> tuple[dict[str, Source], str] | None:
    """The files that a Pod has of ConfigMaps, and the folder of the Corefile; None if it does not mount that."""
    volumes = {each.get("name"): list(_files_of(each, near)) for each in _mappings(spec, "volumes")}
    for container in _mappings(spec, "containers"):
        files, folder = dict[str, Source](), None
        for mount in _mappings(container, "volumeMounts"):
            path, only = mount.get("mountPath"), mount.get("subPath")
            for name, source in volumes.get(mount.get("name"), ()) if isinstance(path, str) else ():
                if only and only != name:
                    continue
                file = os.path.normpath(str(path) if only else os.path.join(str(path), name))
                files[file] = source
                if source is main.values[COREFILE]:
                    folder = os.path.dirname(file)
        if folder is not None:
            return files, folder
    return None


def _config_maps_of(volume: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The references to ConfigMaps of a volume, also of a projected one."""
    projected = volume.get("projected")
    for each in (volume, *_mappings(projected if isinstance(projected, dict) else {}, "sources")):
        if isinstance(found := each.get("configMap"), dict):
            yield found


def _files_of(volume: Mapping[str, Any], near: Sequence[ConfigMap]) -> Iterator[tuple[str, Source]]:
    """The paths in a volume, and their contents."""
    for reference in _config_maps_of(volume):
        values = next((each.values for each in near if each.name == reference.get("name")), {})
        items = {each.get("key"): each.get("path") for each in _mappings(reference, "items")}
        for key, source in values.items():
            path = items.get(key) if items else key
            if isinstance(path, str):
                yield path, source


def _mappings(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
