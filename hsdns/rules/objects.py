"""All objects that are checked together, and their relations.

Path: judging.py -> Manifest, CorefileText -> Objects -> checks/.
Rule 1: an object without a namespace may be in any: Helm and kustomize set it later.  So it is near all others.
Rule 2: without `is_whole` there may be unknown objects; a check has no findings that these could refute.
Rule 3: labels that controllers or programs set on pods are in no manifest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain, product
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml

from hsdns.causes.cause import Cause
from hsdns.causes.labels import MADE_LABELS
from hsdns.causes.view import PODS, SLICES, View
from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.kinds import (
    Endpoints,
    PodManifest,
    PodSpec,
    PodTemplate,
    Workload,
)
from hsdns.cluster.controllers.kinds import Manifest as Kind
from hsdns.cluster.objects import SERVICE_NAME_LABEL, EndpointSlice, Service
from hsdns.corefile.tree import (
    Position,
)
from hsdns.rules.corefile_text import CorefileText, Placed
from hsdns.rules.rule import Edit, Remark
from hsdns.sources.manifest_file import ObjectRead
from hsdns.sources.manifest_yaml import field_node, field_place, json_node, key_node

# An object as written in a file, with the positions of its fields.
#
# Rule: positions in an object in JSON are computed on demand; in a dump only those of objects, which cost nothing.


_PLAIN: Final = re.compile(r"[a-z][A-Za-z0-9.-]*(?:/[A-Za-z0-9_.-]+)?")
_WORDS: Final = frozenset("true false yes no on off null y n".split())


class Manifest:
    """One object of a file, whose content is `whole`, or None if positions of fields are not needed.

    `object` is None for kinds that are not checked, `group` is its API group, empty for the core group, and `namespace`
    is empty if it is not set.
    """

    __slots__ = (
        "_content", "_line", "_node", "_raw", "file", "group", "kind", "metadata", "name", "namespace",
        "object", "refused", "remarks", "whole",
    )  # fmt: skip

    def __init__(self, read: ObjectRead, file: str, whole: bytes | None = b"") -> None:
        item = read.item
        assert item is not None, "the caller has looked"
        self.file = file
        version = item.head.api_version
        self.group = version.rpartition("/")[0] if isinstance(version, str) else ""
        self.kind = item.head.kind if isinstance(item.head.kind, str) else ""
        self.metadata: Mapping[str, Any] = (
            item.head.metadata if isinstance(item.head.metadata, dict) else {}
        )
        self.name = _text(self.metadata.get("name"))
        self.namespace = _text(self.metadata.get("namespace"))
        self.object: Kind | None = read.document.object if read.document is not None else None
        self.refused: Refused | None = read.problem.fault if read.problem is not None else read.kept
        is_named_later = not self.name and bool(_text(self.metadata.get("generateName")))
        if is_named_later and self.refused is not None and self.refused.field == "metadata.name":
            self.refused = None  # kubectl create accepts it; only a simulated cluster does not
        self.remarks = list(read.remarks)
        is_raw = isinstance(item.value, msgspec.Raw)
        self._content: Any = None if is_raw else item.value
        self._node = item.node
        self._line = 1 if item.node is not None and whole is not None else item.line
        self._raw = bytes(item.value) if is_raw else b""
        self.whole = whole

    def __str__(self) -> str:
        name = self.name or _text(self.metadata.get("generateName"))
        path = f"{self.namespace}/{name}" if self.namespace else name
        return f"{self.kind} {path}"

    @property
    def content(self) -> Any:
        """The object as written, decoded; an empty mapping if it cannot be decoded."""
        if self._content is None and self._raw:
            try:
                self._content = msgspec.json.decode(self._raw)
            except (msgspec.DecodeError, RecursionError):
                self._content = {}
        return self._content if isinstance(self._content, dict) else {}

    @property
    def labels(self) -> Mapping[str, Any]:
        """The labels as written."""
        return mapping_at(self.metadata, "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations whose values are text."""
        listed = mapping_at(self.metadata, "annotations")
        return {key: value for key, value in listed.items() if isinstance(value, str)}

    def at(self, field: str) -> Position:
        """The position of a field, or of its nearest parent in the file."""
        if self.whole is None:
            return Position(self.file, self._line, 1)
        line, column = field_place(self.node, field) if self.node is not None else (1, 1)
        return Position(
            self.file, line + self._line - 1, column + (self._column if line == 1 else 0)
        )

    def within(self, field: str, text: str, start: int, word: str) -> Position:
        """The position of a word in a text that a field has; that of the field if the file has it otherwise there."""
        at, node = self.at(field), field_node(self.node, field)
        lines = (self.whole or b"").decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
        row, column = at.line - 1, at.column - 1
        if getattr(node, "style", None) == "|":
            row, column = row + 1 + text.count("\n", 0, start), 0
            before = text[text.rfind("\n", 0, start) + 1 : start]
            column = lines[row].find(before + word) + len(before) if row < len(lines) else 0
        column = lines[row].find(word, max(column, 0)) if row < len(lines) else -1
        return at if column < 0 else Position(self.file, row + 1, column + 1)

    def remark(
        self, field: str, sentence: str, *, level: str = "", at: str = "", edit: Edit | None = None
    ) -> Remark:
        """Make a remark about a field; `at` is the field with the position, if it is another."""
        return Remark(self.at(at or field), str(self), field, sentence, level, edit)

    def caused(self, field: str, cause: Cause) -> Remark:
        """Make a remark about a field that is a cause."""
        return self.remark(field, cause.sentence)._replace(todo=cause.todo)

    def replaced(self, field: str, text: str, *, is_key: bool = False) -> Edit | None:
        """The edit that replaces the value of a field, or its key; None if that is not one word on one line.

        The new word has the quotes of the old one, and quotes if it would not be text without them.
        """
        found = key_node if is_key else field_node
        node = None if self.whole is None else found(self.node, field)
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            return None
        if node.start_mark.line != node.end_mark.line:
            return None
        start, end = (
            Position(
                self.file,
                mark.line + self._line,
                mark.column + 1 + (0 if mark.line else self._column),
            )
            for mark in (node.start_mark, node.end_mark)
        )
        quote = node.style or ("" if _PLAIN.fullmatch(text) and text not in _WORDS else '"')
        return Edit(start, end, f"{quote}{text}{quote}")

    @property
    def _column(self) -> int:
        """The column at which an object in JSON begins: its text is parsed separately."""
        whole = self.whole or b""
        before = whole.find(self._raw) if self._raw else -1
        return (
            len(whole[:before].rpartition(b"\n")[2].decode("utf-8", "replace")) if before > 0 else 0
        )

    @property
    def node(self) -> Any:
        """The YAML node."""
        if self._node is None:
            self._node = json_node(self._raw or msgspec.json.encode(self._content))
        return self._node


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


T = TypeVar("T")
K = TypeVar("K")

_TEMPLATES: Final = ("spec.template", "spec.jobTemplate.spec.template")


class PodSet(NamedTuple):
    """The pods of a workload, or one Pod; `field` is the path of their spec, `replicas` None if it is not set."""

    manifest: Manifest
    labels: Mapping[str, str]
    spec: PodSpec
    field: str
    replicas: int | None

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self.manifest.name

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Whether a selector matches the labels of the pods in the manifest."""
        return all(
            self.labels.get(key) == value or key in MADE_LABELS for key, value in selector.items()
        )


class Objects:
    """The objects of some files; `is_whole` if the cluster has no others.

    `patched` are the kinds and names of those that something else changes, `partial` the folders with objects that were
    not read.
    """

    def __init__(
        self,
        manifests: Sequence[Manifest],
        corefiles: Sequence[CorefileText] = (),
        *,
        is_whole: bool = False,
        patched: Set[tuple[str, str]] = frozenset(),
        partial: Set[str] = frozenset(),
    ) -> None:
        self.manifests = manifests
        self.corefiles = corefiles
        self.is_whole = is_whole
        self._patched = patched
        self.partial = partial

    def is_patched(self, *manifests: Manifest) -> bool:
        """Whether something else, such as a kustomization, changes one of some objects."""
        words = {
            (kind, name)
            for each in manifests
            for kind, name in product((each.kind, ""), (each.name, ""))
        }
        return not self._patched.isdisjoint(words)

    @cached_property
    def view(self) -> View:
        """The objects as causes are found in them."""
        kinds = ((SLICES, "EndpointSlice"), (PODS, "Pod"))
        unknown = {plural: "there are none" for plural, kind in kinds if not self.of(kind)}
        objects = ((each.kind, each.object) for each in self.manifests)
        return View(objects, unknown, is_live=self.is_whole)

    def directives(self, name: str) -> Iterator[Placed]:
        """The directives with a name of all Corefiles."""
        for corefile in self.corefiles:
            yield from corefile.directives(name)

    @property
    def kubernetes_blocks(self) -> Iterator[Placed]:
        """The `kubernetes` directives of all Corefiles."""
        return self.directives("kubernetes")

    def of(self, kind: str) -> list[Manifest]:
        """The valid manifests of a kind."""
        return [each for each in self._by_kind.get(kind, ()) if each.object is not None]

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        return _grouped(self.manifests, lambda each: each.kind)

    def written(self, kind: str) -> list[Manifest]:
        """All manifests of a kind, whether they are checked or not."""
        return self._by_kind.get(kind, [])

    def typed(self, kind: type[K]) -> list[tuple[Manifest, K]]:
        """The valid objects of a kind, with their manifests."""
        named = self.of(kind.__name__)
        return [(each, each.object) for each in named if isinstance(each.object, kind)]

    @cached_property
    def services(self) -> list[tuple[Manifest, Service]]:
        """The Services."""
        return self.typed(Service)

    @property
    def headless(self) -> Iterator[tuple[Manifest, Service]]:
        """The headless Services."""
        return (each for each in self.services if each[1].is_headless)

    @property
    def manual(self) -> Iterator[tuple[Manifest, Service]]:
        """The Services whose endpoints are written by hand: without a selector, and not of type ExternalName."""
        for manifest, service in self.services:
            if not service.spec.selector and service.spec.type != "ExternalName":
                yield manifest, service

    @cached_property
    def service_names(self) -> dict[str, list[tuple[Manifest, Service]]]:
        """The Services by name, in any namespace."""
        return _grouped(self.services, lambda each: each[0].name)

    def named(self, name: str, near: Manifest) -> list[tuple[Manifest, Service]]:
        """The Services with a name that may be in the namespace of an object."""
        return [each for each in self.service_names.get(name, ()) if is_near(each[0], near)]

    @cached_property
    def _slices(self) -> dict[str, list[tuple[Manifest, EndpointSlice]]]:
        """The EndpointSlices by the name of their Service, in any namespace."""
        listed = self.typed(EndpointSlice)
        return _grouped(listed, lambda each: each[0].labels.get(SERVICE_NAME_LABEL, ""))

    def slices_of(self, service: Manifest) -> list[tuple[Manifest, EndpointSlice]]:
        """The slices of a Service."""
        return [each for each in self._slices.get(service.name, ()) if is_near(each[0], service)]

    @cached_property
    def _endpoints(self) -> dict[str, list[tuple[Manifest, Endpoints]]]:
        """The Endpoints by name, in any namespace."""
        return _grouped(self.typed(Endpoints), lambda each: each[0].name)

    def endpoints_of(self, service: Manifest) -> list[tuple[Manifest, Endpoints]]:
        """The Endpoints of a Service."""
        return [each for each in self._endpoints.get(service.name, ()) if is_near(each[0], service)]

    @cached_property
    def pods(self) -> dict[str, list[Manifest]]:
        """The Pods by name, in any namespace."""
        return _grouped(self.of("Pod"), lambda each: each.name)

    @cached_property
    def pod_sets(self) -> list[PodSet]:
        """The pods of all workloads, including kinds that are not checked but have a template."""
        return [each for manifest in self.manifests for each in _pods_of(manifest)]

    @cached_property
    def templates(self) -> list[PodSet]:
        """The pods as written: for pods made by a controller, its workload, or one of them."""
        present = {(each.kind, each.namespace, each.name) for each in self.manifests}
        found: dict[object, PodSet] = {}
        for pods in self.pod_sets:
            manifest, owned = pods.manifest, pods.manifest.object
            key: object = id(pods)
            if isinstance(owned, PodManifest | Workload) and owned.metadata.owner_references:
                owner = owned.metadata.owner_references[0]
                key = (owner.kind, manifest.namespace, owner.name)
                if key in present:
                    continue
            found.setdefault(key, pods)
        return list(found.values())

    @cached_property
    def _by_namespace(self) -> dict[str, list[PodSet]]:
        """The templates."""
        return _grouped(self.templates, lambda each: each.manifest.namespace)

    def near_pods(self, manifest: Manifest) -> list[PodSet]:
        """The templates of the namespaces that an object may be in."""
        own = manifest.namespace
        names = dict.fromkeys((own, "")) if own else self._by_namespace
        return [each for name in names for each in self._by_namespace.get(name, ())]

    @cached_property
    def namespaces(self) -> set[str]:
        """The namespaces of the Services."""
        return {each.namespace for each, _ in self.services} - {""}

    @cached_property
    def is_placed(self) -> bool:
        """Whether each Service and each workload says its namespace."""
        pods = (each.manifest for each in self.templates)
        return all(each.namespace for each in chain(pods, (each for each, _ in self.services)))

    @cached_property
    def custom(self) -> list[Manifest]:
        """The custom resources: objects of a group that is not the API server's own."""
        return [
            each
            for each in self.manifests
            if "." in each.group and not each.group.endswith(".k8s.io")
        ]

    @cached_property
    def _by_label(self) -> dict[tuple[str, str, str], list[int]]:
        """The positions of pod_sets by namespace and label, and by "*" and label in all namespaces."""
        found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for position, pods in enumerate(self.pod_sets):
            for label in pods.labels.items():
                found[pods.manifest.namespace, *label].append(position)
                found["*", *label].append(position)
        return found

    def selected(self, manifest: Manifest, selector: Mapping[str, str]) -> list[PodSet]:
        """The pods that the selector of a Service matches."""
        if not any(key not in MADE_LABELS for key in selector):
            return [each for each in self.pod_sets if selector and is_near(each.manifest, manifest)]
        return self._matching((manifest.namespace, "") if manifest.namespace else ("*",), selector)

    def anywhere(self, selector: Mapping[str, str]) -> list[PodSet]:
        """The pods of all namespaces that a selector matches."""
        return self._matching(("*",), selector)

    def _matching(self, names: Sequence[str], selector: Mapping[str, str]) -> list[PodSet]:
        written = [each for each in selector.items() if each[0] not in MADE_LABELS]
        fewest = min(
            ([self._by_label.get((name, *each), []) for name in names] for each in written),
            key=lambda parts: sum(map(len, parts)),
        )
        near = (self.pod_sets[each] for each in sorted(chain(*fewest)))
        return [each for each in near if each.matches(selector)]

    def services_of(self, pods: PodSet) -> Iterator[tuple[Manifest, Service]]:
        """The Services that select these pods."""
        for manifest, service in self._by_selector(pods):
            selector = service.spec.selector
            if selector and pods.matches(selector):
                yield manifest, service

    def _by_selector(self, pods: PodSet) -> Iterator[tuple[Manifest, Service]]:
        own = pods.manifest.namespace
        names = (own, "") if own else ("*",)
        for label in (*pods.labels.items(), ("", "")):
            parts = [self._by_first.get((name, *label), []) for name in names]
            yield from (self.services[each] for each in sorted(chain(*parts)))

    @cached_property
    def _by_first(self) -> dict[tuple[str, str, str], list[int]]:
        """The positions of Services as in _by_label, by the first label of their selector that is in templates."""
        found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for position, (manifest, service) in enumerate(self.services):
            selector = service.spec.selector or {}
            first = next(
                (item for item in selector.items() if item[0] not in MADE_LABELS), ("", "")
            )
            found[manifest.namespace, *first].append(position)
            found["*", *first].append(position)
        return found


def _grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for each in items:
        found[key(each)].append(each)
    return found


def value_at(value: Any, path: str) -> Any:
    """What an object as written has at a path such as `spec.template`; None if it has nothing there."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def mapping_at(value: Any, path: str) -> dict[str, Any]:
    """The mapping at a path; empty if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, dict) else {}


def mappings_at(value: Any, path: str) -> list[tuple[int, dict[str, Any]]]:
    """The mappings in a list at a path, with their positions in it."""
    found = value_at(value, path)
    listed = enumerate(found if isinstance(found, list) else ())
    return [(at, each) for at, each in listed if isinstance(each, dict)]


def texts_of(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """The texts in a value, with their fields."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, each in value.items():
            step = f"[{key}]" if "." in str(key) else f".{key}"
            yield from texts_of(each, f"{field}{step}".removeprefix("."))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from texts_of(each, f"{field}[{at}]")


def is_near(one: Manifest, other: Manifest) -> bool:
    """Whether two objects may be in the same namespace."""
    return one.namespace == other.namespace or not one.namespace or not other.namespace


def _pods_of(manifest: Manifest) -> Iterator[PodSet]:
    found = manifest.object
    if isinstance(found, PodManifest):
        yield PodSet(manifest, found.metadata.labels or {}, found.spec, "spec", 1)
    elif isinstance(found, Workload):
        template = found.spec.template
        replicas = found.spec.replicas if manifest.kind != "DaemonSet" else None
        yield PodSet(
            manifest, template.metadata.labels or {}, template.spec, "spec.template.spec", replicas
        )
    elif (
        found is None and manifest.refused is None and manifest.kind not in ("ConfigMap", "Secret")
    ):
        yield from _pods_of_others(manifest)


def _pods_of_others(manifest: Manifest) -> Iterator[PodSet]:
    for field in _TEMPLATES:
        value = mapping_at(manifest.content, field)
        if not value:
            continue
        try:
            template = msgspec.convert(value, PodTemplate)
        except msgspec.ValidationError:
            continue
        yield PodSet(manifest, template.metadata.labels or {}, template.spec, f"{field}.spec", None)


# The table of checks: a function for each rule, which yields remarks about objects.


Check = Callable[..., Iterator[Remark]]

CHECKS: Final[dict[str, Callable[[Objects], Iterator[Remark]]]] = {}
# The rules that need each kind of object, by its plural or another word for what may be unread.
NEEDS: Final[defaultdict[str, set[str]]] = defaultdict(set)
# What the checks are applied to, of those that look at one after another.
EACH: Final[dict[str, Callable[[Objects], Iterable[Any]]]] = {}
# Rules about the servers that every name depends on, and istiod; they also apply if only a part of the cluster is
# diagnosed.
OF_SERVERS: Final[set[str]] = set()


def check(
    code: str,
    needs: str,
    *,
    each: str | Callable[[Objects], Iterable[Any]] = "",
    of_servers: bool = False,
) -> Callable[[Check], Check]:
    """Register a function as the check of a rule, which needs objects of these kinds, separated by |.

    What needs "files" finds nothing in a dump of a cluster.  With `each`, an attribute of Objects or a function of
    them, it is called with all objects and one of these after another; a plain tuple is several arguments.
    """

    def enter(function: Check) -> Check:
        every = each if callable(each) else attrgetter(each or "manifests")

        def of_each(objects: Objects) -> Iterator[Remark]:
            for one in every(objects):
                yield from function(objects, *one) if type(one) is tuple else function(objects, one)

        assert code not in CHECKS, f"two checks have the code {code}"
        CHECKS[code] = of_each if each else function
        EACH[code] = every
        for plural in needs.split("|"):
            NEEDS[plural].add(code)
        if of_servers:
            OF_SERVERS.add(code)
        return function

    return enter
