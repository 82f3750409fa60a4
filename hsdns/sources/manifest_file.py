"""Parser for one manifest file: YAML or JSON bytes to documents.

Path: manifest_folder.py (bytes) -> here -> cluster/controllers/simulation.
Rule 1: every document has its line; an error has the line of its field.
Rule 2: all errors of a file are reported at once, MAX_PROBLEMS at most.
Rule 3: any file of 1 MB is read or refused within 2 s and 200 MB: manifest_yaml.py bounds YAML.
Rule 4: kinds that DNS does not use are skipped, but the namespace they name exists.
Rule 5: valid parts that are probably mistakes are warnings (manifest_check.py); at most MAX_PROBLEMS for a file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.document import Document, check_document
from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED, KINDS, Manifest
from hsdns.sources.manifest_check import GROUPS, check_object, is_written_by_hand, written
from hsdns.sources.manifest_yaml import (
    Decoded,
    DuplicateKey,
    ForeignTag,
    ManifestLoader,
    TooLarge,
    decode_json,
    field_line,
    json_node,
    key_line,
    key_text,
    sentence,
)

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


MAX_FILE_LEN: Final = 128 * 1024 * 1024  # octets; as a dump of 10,000 Services with their Pods has
MAX_PROBLEMS: Final = 100  # for a file; further ones are not reported
_MAX_NESTED_LISTS: Final = 8  # a List of Lists of Lists, each of which is decoded again


class ManifestFile(NamedTuple):
    """The contents of a file; `problems` and `warnings` are sentences with file and line."""

    documents: list[Document]
    problems: list[str]
    warnings: list[str]


def read_manifest_file(content: bytes, path: str) -> ManifestFile:
    """Parse all documents of a file; errors are returned in `problems`."""
    documents: list[Document] = []
    problems: list[str] = []
    warnings: list[str] = []
    if len(content) > MAX_FILE_LEN:
        too_long = f"{path}:1: the file is longer than {MAX_FILE_LEN} octets; split it"
        return ManifestFile([], [too_long], [])
    for found in read_objects(content, path):
        for line, remark in islice(found.remarks, MAX_PROBLEMS - len(warnings)):
            warnings.append(f"{path}:{line}: {remark}")
        if found.problem is not None:
            problems.append(f"{path}:{found.problem.line}: {found.problem}")
            if len(problems) == MAX_PROBLEMS:
                problems.append(
                    f"{path}:{found.line}: the rest of the file is not read; correct these errors first"
                )
                break
        elif found.document is not None:
            documents.append(found.document)
    return ManifestFile(documents, problems, warnings)


def read_objects(content: bytes, path: str) -> Iterator[ObjectRead]:
    """Read the objects of a file one by one; an error of the file itself is the problem of the last one."""
    items = _json_items(content) if _looks_like_json(content, path) else _yaml_items(content)
    try:
        for item in items:
            if isinstance(item, ManifestError):
                yield ObjectRead(item.line, None, problem=item)
                continue
            try:
                document = _read_item(item, f"{path}:{item.line}")
                yield ObjectRead(item.line, item, document, remarks=_remarks(item))
            except ManifestError as fault:
                yield ObjectRead(item.line, item, problem=fault, remarks=_remarks(item))
    except ManifestError as fault:
        yield ObjectRead(fault.line, None, problem=fault)


_NO_OBJECT = "this is not a Kubernetes object;  write fields such as apiVersion, kind and metadata"
_NESTED = "it is nested too deeply; correct the file"
_NESTED_LISTS = "lists are nested too deeply; write the objects into one list"
_NO_LIST = "items of {} is not a list; write one object per item"


class ManifestError(Exception):
    """An error message and its line; `fault` is set if the API server would refuse a field."""

    def __init__(self, line: int, message: str, fault: Refused | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.fault = fault


class LeftOut(ManifestError):
    """The sentence about an object that is not read, because it is not complete before another program has run."""


class Head(msgspec.Struct, rename="camel"):
    """The fields that are decoded first, unchecked."""

    api_version: Any = None
    kind: Any = None
    metadata: Any = None


class Item(NamedTuple):
    """An object whose kind is not checked yet; one for each item of a list."""

    line: int
    head: Head
    value: Any  # a YAML value, or the raw JSON of the object
    node: Any = None  # the YAML node, which has the lines
    fields: Any = None  # the decoded object, unless it is JSON from an API server


class ObjectRead(NamedTuple):
    """One object of a file: as written, as a document unless it has a problem, and remarks with their lines."""

    line: int
    item: Item | None
    document: Document | None = None
    problem: ManifestError | None = None
    remarks: Iterator[tuple[int, str]] = iter(())


def _read_item(item: Item, where: str) -> Document | None:
    head = item.head
    if head.kind is None and head.api_version is None:
        return None  # YAML, but not a manifest, such as the values of a Helm chart
    for field, word in (("kind", head.kind), ("apiVersion", head.api_version)):
        if not isinstance(word, str) or not word:
            missing = "is missing" if word is None else "is not text"
            raise ManifestError(
                item.line, f"{field} {missing}; every object needs apiVersion and kind"
            )
    group, slash, _ = head.api_version.rpartition("/")
    kind = KINDS.get((group, head.kind))
    if kind is None:
        if not slash and GROUPS.get(head.kind):
            raise ManifestError(
                item.line,
                f"{head.kind} is not of apiVersion {head.api_version}; write {written(head.kind)}",
            )
        return _namespace_named(head, where)
    try:
        return check_document(head.kind, _converted(item, kind), where)
    except Refused as fault:
        name = _display_name(head)
        raise ManifestError(_line_in(item, fault.field), f"{name}: {fault}", fault) from None


def _remarks(item: Item) -> Iterator[tuple[int, str]]:
    """Yield warnings about an object, with their lines."""
    head = item.head
    if not isinstance(head.kind, str) or not isinstance(head.api_version, str):
        return
    found: tuple[Any, int] | None = None
    for remark in check_object(head.kind, head.api_version, _display_name(head), item.fields):
        node, line = found = found or _node_of(item)  # only now: for JSON it is costly
        if node is not None:
            line += key_line(node, remark.parent, remark.field) - 1
        yield line, remark.sentence


def _namespace_named(head: Head, where: str) -> Document | None:
    namespace = head.metadata.get("namespace") if isinstance(head.metadata, dict) else None
    if isinstance(namespace, str) and re.fullmatch(
        r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace
    ):
        return Document("", namespace, "", None, where)
    return None


def _converted(item: Item, kind: type[Manifest]) -> Manifest:
    try:
        if isinstance(item.value, msgspec.Raw):
            return msgspec.json.decode(item.value, type=kind)
        return msgspec.convert(item.value, kind)
    except msgspec.ValidationError:
        pass
    # Rare, so tried second: `null` means absent, and keys that are not strings are converted.
    try:
        value = (
            msgspec.json.decode(item.value) if isinstance(item.value, msgspec.Raw) else item.value
        )
        return msgspec.convert(_normalised(value), kind)
    except msgspec.ValidationError as fault:
        raise wrong_type(str(fault)) from None
    except RecursionError:
        raise Refused("object", _NESTED) from None


def _normalised(value: Any) -> Any:
    if isinstance(value, dict):
        return {key_text(key): _normalised(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_normalised(each) for each in value]
    return value


def _display_name(head: Head) -> str:
    metadata = head.metadata if isinstance(head.metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return str(head.kind)
    if head.kind in CLUSTER_SCOPED:
        return f"{head.kind} {name}"
    return f"{head.kind} {namespace if isinstance(namespace, str) else 'default'}/{name}"


def _line_in(item: Item, field: str) -> int:
    node, line = _node_of(item)
    return line if node is None else field_line(node, field) + line - 1


def _node_of(item: Item) -> tuple[Any, int]:
    """Return the YAML node of an object, and the line where the text of that node begins."""
    return (json_node(bytes(item.value)), item.line) if item.node is None else (item.node, 1)


# YAML


def _yaml_items(content: bytes) -> Iterator[Item | ManifestError]:
    try:
        loader = ManifestLoader(content)
    except yaml.YAMLError as fault:
        raise _yaml_fault(fault, content) from None
    try:
        while loader.check_node():
            node = loader.get_node()
            try:
                value = loader.construct_document(node)
            except yaml.YAMLError as fault:
                yield _yaml_fault(fault, content)
                continue
            except (ValueError, LookupError, AttributeError, TypeError) as fault:
                # Of tags, as in `!!bool x`.
                line = node.start_mark.line + 1
                yield ManifestError(line, f"a value cannot be read ({fault}); put it in quotes")
                continue
            duplicates, foreign = loader.take_duplicates(), loader.take_foreign()
            yield from _duplicates(duplicates)
            if duplicates or (foreign and not isinstance(value, dict)):
                continue
            items = _yaml_objects(node, value)
            try:
                yield from _without_foreign(items, foreign) if foreign else items
            except ManifestError as fault:
                yield fault
    except yaml.YAMLError as fault:
        raise _yaml_fault(fault, content) from None
    finally:
        loader.dispose()


def _without_foreign(items: Iterator[Item], tags: list[ForeignTag]) -> Iterator[Item | LeftOut]:
    """The objects, but those with tags of other programs; what is no object is of such a program anyway."""
    starts = [each.start for each in tags]
    for item in items:
        at = bisect_left(starts, item.node.start_mark.index)
        if at < len(tags) and tags[at].start < item.node.end_mark.index:
            if item.head.kind is not None or item.head.api_version is not None:
                yield LeftOut(
                    tags[at].line,
                    f"{_display_name(item.head)} is left out: {tags[at].tag} is a tag of another program, which writes "
                    "another value there; check what it writes",
                )
        else:
            yield item


def _duplicates(found: list[DuplicateKey]) -> Iterator[ManifestError]:
    for each in found:
        yield ManifestError(each.line, sentence(each))


def _yaml_objects(node: Any, value: Any, of: Head | None = None, above: int = 0) -> Iterator[Item]:
    line = node.start_mark.line + 1
    if above > _MAX_NESTED_LISTS:
        raise ManifestError(line, _NESTED_LISTS)
    if value is None or (isinstance(value, list) and of is None):
        return
    if not isinstance(value, dict):
        raise ManifestError(line, _NO_OBJECT)
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if of is not None:
        kind, api_version = kind or of.kind, api_version or of.api_version
    head = Head(api_version, kind, value.get("metadata"))
    if not _is_list(head.kind, "items" in value):
        yield Item(line, head, value, node, value)
        return
    items = value.get("items") or []
    if not isinstance(items, list):
        raise ManifestError(line, _NO_LIST.format(head.kind))
    nodes = next((each for key, each in node.value if key.value == "items"), None)
    inner = _inner_head(head)
    for each, item in zip(nodes.value if nodes else [], items, strict=False):
        yield from _yaml_objects(each, item, inner, above + 1)


def _is_list(kind: object, has_items: bool) -> bool:
    return isinstance(kind, str) and kind.endswith("List") and (has_items or kind == "List")


def _inner_head(head: Head) -> Head:
    """Return the defaults for the items of a typed list, which may lack kind and apiVersion."""
    if head.kind == "List":
        return Head()
    return Head(head.api_version, head.kind.removesuffix("List"))


def _yaml_fault(fault: yaml.YAMLError, content: bytes) -> ManifestError:
    if isinstance(fault, TooLarge):
        return ManifestError(fault.line, fault.problem)
    mark = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    if mark is not None:
        problem = getattr(fault, "problem", None) or "not understood"
        return ManifestError(
            mark.line + 1, f"not YAML: {problem} (column {mark.column + 1}); correct the file"
        )
    position = getattr(fault, "position", 0)
    line = content.count(b"\n", 0, position) + 1 if isinstance(position, int) else 1
    reason = getattr(fault, "reason", None) or str(fault)
    return ManifestError(line, f"not YAML: {reason}; write the file in UTF-8")


# JSON


class _JsonHead(msgspec.Struct, rename="camel"):
    api_version: Any = None
    kind: Any = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    items: msgspec.Raw = msgspec.Raw(b"null")


def _looks_like_json(content: bytes, path: str) -> bool:
    if path.endswith(".json"):
        return True
    # JSON under another extension; a YAML flow mapping is not valid JSON and is parsed as YAML.
    if content.lstrip()[:1] != b"{":
        return False
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _json_items(content: bytes) -> Iterator[Item | ManifestError]:
    if not content.strip():
        return
    yield from _json_objects(msgspec.Raw(content), _Lines(content), None)


class _Lines:
    """Finds the lines of substrings; call line_of() in the order of the text."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._line = 1

    def line_of(self, piece: bytes) -> int:
        """Return the line in which a substring begins."""
        found = self._content.find(piece, self._at)
        self._line += self._content.count(b"\n", self._at, found)
        self._at = found
        return self._line


def _json_objects(
    raw: msgspec.Raw, lines: _Lines, of: Head | None, above: int = 0
) -> Iterator[Item | ManifestError]:
    text = bytes(raw).strip()
    line = lines.line_of(text)
    if above > _MAX_NESTED_LISTS:
        raise ManifestError(line, _NESTED_LISTS)
    try:
        found = msgspec.json.decode(text, type=_JsonHead)
    except RecursionError:
        raise ManifestError(line, _NESTED) from None
    except msgspec.ValidationError:
        if of is None and text[:1] == b"[":
            return
        raise ManifestError(line, _NO_OBJECT) from None
    except msgspec.DecodeError as fault:
        byte = re.search(r"\(byte (\d+)\)", str(fault))
        end = int(byte[1]) if byte else len(text)
        problem = re.sub(r"JSON is malformed: | \(byte \d+\)", "", str(fault))
        problem = f"not JSON: {problem[:1].lower()}{problem[1:]}; correct the file"
        raise ManifestError(line + text.count(b"\n", 0, end), problem) from None
    head = Head(found.api_version, found.kind)
    if of is not None:
        head = Head(found.api_version or of.api_version, found.kind or of.kind)
    if not _is_list(head.kind, bytes(found.items) != b"null"):
        try:
            metadata = msgspec.json.decode(found.metadata)
        except RecursionError:
            raise ManifestError(line, _NESTED) from None
        head.metadata = metadata if isinstance(metadata, Mapping) else None
        # Not decoded twice if it comes from an API server: dumps are large, and have no such errors.
        decoded = _decoded(text, line) if is_written_by_hand(metadata) else Decoded(None, [])
        yield from _duplicates(decoded.duplicates)
        if not decoded.duplicates:
            yield Item(line, head, msgspec.Raw(text), fields=decoded.value)
        return
    inside = bytes(found.items)
    around = text.replace(inside, b"null" + b"\n" * inside.count(b"\n"))
    duplicates = _decoded(around, line).duplicates
    if duplicates:
        yield from _duplicates(duplicates)
        return
    try:
        items = msgspec.json.decode(found.items, type=list[msgspec.Raw] | None) or []
    except msgspec.ValidationError:
        raise ManifestError(line, _NO_LIST.format(head.kind)) from None
    inner = _inner_head(head)
    for item in items:
        yield from _json_objects(item, lines, inner, above + 1)


def _decoded(text: bytes, line: int) -> Decoded:
    try:
        return decode_json(text, line)
    except RecursionError:
        raise ManifestError(line, _NESTED) from None
    except yaml.YAMLError:
        raise ManifestError(line, "a mapping has a key twice; remove one of the two") from None
