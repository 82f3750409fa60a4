"""Valid parts of a manifest that are probably mistakes: a misspelt kind, apiVersion or field; a field without effect.

Path: manifest_file.py, for each object -> here -> warnings.
Rule 1: no warning is about what an API server knows.  An object with a resource version or a uid comes from one, which
        has removed unknown fields, so its fields are not checked.
Rule 2: a kind is misspelt if it resembles one that hsdns reads, in a group of those; other groups with a dot belong to
        other software.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, Final, NamedTuple

from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.endpointslice import NO_ADDRESSES
from hsdns.cluster.controllers.kinds import KINDS
from hsdns.cluster.controllers.workload import MAX_SET_NAME
from hsdns.corefile.tree import did_you_mean
from hsdns.sources.manifest_yaml import MAX_SHOWN_LEN, shown

# The fields of the kinds that hsdns reads, to find misspelt ones, which decoding ignores silently.
#
# Rule 1: all fields are listed of the types that contain what DNS and the controllers use; the content of other types
#         is not checked.
# Rule 2: only version v1 of a kind is listed.
# Source: the OpenAPI document of Kubernetes 1.36 (api/openapi-spec/swagger.json).


VERSION: Final = "1.36"
# By type the fields, each with its type if that is listed too.
FIELDS: Final[dict[str, dict[str, str]]] = {
    name: dict(word.partition(":")[::2] for word in fields.split())
    for line in files("hsdns.sources").joinpath("api_fields.txt").read_text("utf-8").splitlines()
    for name, mark, fields in [line.partition(" = ")]
    if mark
}


class UnknownField(NamedTuple):
    """A field that its type does not have; `parent` is a path such as `spec.ports[0]`, "" for the object itself."""

    parent: str
    name: str
    known: Collection[str]


def unknown_fields(kind: str, value: Any, parent: str = "") -> Iterator[UnknownField]:
    """Yield the fields of a decoded object of a listed type that the type does not have, in the order of the text."""
    fields = FIELDS[kind]
    if not isinstance(value, dict):
        return  # of the wrong type, which is an error
    for name, inner in value.items():
        if name not in fields:
            yield UnknownField(parent, name, fields)
        elif fields[name]:
            path = f"{parent}.{name}" if parent else name
            if isinstance(inner, list):
                for index, each in enumerate(inner):
                    yield from unknown_fields(fields[name], each, f"{path}[{index}]")
            else:
                yield from unknown_fields(fields[name], inner, path)


GROUPS: Final = {kind: group for group, kind in KINDS}
# Other kinds of these groups with similar names, and kinds of v1 from elsewhere (kubeconfig, OpenShift).
_OTHER_KINDS: Final = frozenset(
    "Config ConfigMap ControllerRevision CronJob DeploymentConfig PodTemplate ServiceAccount ServiceExport "
    "Status Template".split()
)
_LOWER: Final = {kind.lower(): kind for kind in [*GROUPS, "List"]}
_SIMILAR: Final = 0.7  # difflib's ratio


class Remark(NamedTuple):
    """A warning about a field of an object; `parent` is the path of the mapping that holds the field."""

    parent: str
    field: str
    sentence: str


def check_object(kind: str, api_version: str, name: str, value: Any) -> Iterator[Remark]:
    """Yield the remarks about an object; `name` is used in the sentences, `value` is the decoded object or None."""
    group, _, version = api_version.rpartition("/")
    if (group, kind) not in KINDS:
        remark = _check_kind(kind, group, api_version)
        if remark is not None:
            yield remark
    elif kind in FIELDS and version == "v1" and value and is_written_by_hand(value.get("metadata")):
        yield from _check_fields(kind, name, value)
        yield from _check_effect(kind, name, value)


def _check_effect(kind: str, name: str, value: Any) -> Iterator[Remark]:
    """Fields that the API server takes, and no controller does what they say."""
    if kind == "EndpointSlice" and value.get("addressType") == "FQDN":
        sentence = f"{NO_ADDRESSES}; write a Service of type ExternalName"
        yield Remark("", "addressType", f"{name}: {sentence}")
    if kind != "StatefulSet":
        return
    length = len(str(_inside(value, "metadata").get("name")))
    if length > MAX_SET_NAME:
        sentence = (
            f"it has no pods: its name has {length} characters, and with its revision, a label of its pods, "
            f"{MAX_SET_NAME} are possible; choose a shorter name"
        )
        yield Remark("metadata", "name", f"{name}: {sentence}")
    if _inside(value, "spec", "template", "spec").get("hostname"):
        sentence = "each pod of a StatefulSet has its own name as hostname instead; remove it"
        yield Remark(
            "spec.template.spec", "hostname", f"{name}: spec.template.spec.hostname: {sentence}"
        )


def _check_kind(kind: str, group: str, api_version: str) -> Remark | None:
    meant = GROUPS.get(kind)
    if meant is not None:
        # The group of a custom resource contains a dot, so this is not one; without any group it is an error.
        if group and "." not in group:
            sentence = f"{kind} is not of apiVersion {shown(api_version)}, so it is ignored; write {written(kind)}"
            return Remark("", "apiVersion", sentence)
        return None
    single = kind.removesuffix("List")
    if single in GROUPS or single in _OTHER_KINDS:
        return None
    if group not in GROUPS.values() or len(kind) > MAX_SHOWN_LEN:
        return None
    near = get_close_matches(kind.lower(), _LOWER, n=1, cutoff=_SIMILAR)
    if not near:
        return None
    sentence = (
        f'kind "{shown(kind)}" of {shown(api_version)} is not known, so the object is ignored'
    )
    return Remark("", "kind", f'{sentence}; did you mean "{_LOWER[near[0]]}"?')


def _check_fields(kind: str, name: str, value: Any) -> Iterator[Remark]:
    for parent, field, known in unknown_fields(kind, value):
        where = f"{name}: {parent}" if parent else name
        hint = did_you_mean(field, known) if len(field) <= MAX_SHOWN_LEN else ""
        yield Remark(
            parent,
            field,
            f'{where} has no field "{shown(field)}"'
            + (hint or f" in Kubernetes {VERSION}; it is ignored"),
        )


def _inside(value: Any, *path: str) -> Mapping[str, Any]:
    """A mapping within a decoded object; empty if there is none."""
    for field in path:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def is_written_by_hand(metadata: Any) -> bool:
    """Whether an object does not come from an API server."""
    return not (
        isinstance(metadata, Mapping) and (metadata.get("resourceVersion") or metadata.get("uid"))
    )


def written(kind: str) -> str:
    """Return the apiVersion of a kind that hsdns reads."""
    group = GROUPS[kind]
    return (f"{group}/" if group else "") + ("v1alpha1" if kind == "ServiceImport" else "v1")


# A value of another type than a field has, as msgspec tells it.


_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a decimal number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def wrong_type(message: str) -> Refused:
    """The field that a message of msgspec is about, with a sentence in our words."""
    text, _, path = message.partition(" - at ")
    path = (
        path.replace("`key` in ", "")
        .strip("`")
        .removeprefix("$")
        .removeprefix(".")
        .replace("[...]", "")
    )
    missing = re.match(r"Object missing required field `(\w+)`", text)
    if missing:
        field = f"{path}.{missing[1]}" if path else missing[1]
        return Refused(field, "the field is missing; add it")
    found = re.match(r"Expected `([^`]+)`, got `(\w+)`", text)
    if not found:
        return Refused(path or "object", f"{text[:1].lower()}{text[1:]}; correct the value")
    allowed = [word for word in found[1].split(" | ") if word != "null"]
    wanted = " or ".join(_WORDS.get(word, word) for word in allowed)
    remedy = "correct the value"
    if "str" in allowed and found[2] in {"int", "float", "bool"}:
        remedy = "put it in quotes"
    elif allowed == ["int"] and found[2] == "str":
        remedy = "write the number without quotes"
    return Refused(
        path or "object", f"expected {wanted}, found {_WORDS.get(found[2], found[2])}; {remedy}"
    )
