"""Parser for one manifest file: YAML or JSON in UTF-8 to documents.

Path: file_text.py (bytes) -> here -> cluster/controllers/simulation.
Rule 1: every document has its line; an error has the line of its field.
Rule 2: all errors of a file are reported at once, MAX_PROBLEMS at most.  An error is about one object or one document:
        the others are read, as `kubectl apply` would apply them.
Rule 3: any file of 1 MB is read or refused within 2 s and 200 MB: manifest_yaml.py bounds YAML.
Rule 4: kinds that DNS does not use are skipped, but the namespace they name exists.
Rule 5: valid parts that are probably mistakes are warnings (manifest_check.py); at most MAX_PROBLEMS for a file.  A key
        that a mapping has twice, of which the last counts, is one too, and so is a value that API servers take no more
        in an object that one of them has kept.
Rule 6: the content tells JSON from YAML, not the name; values of JSON may follow each other, as in JSON lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.document import Document, check_document
from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED, KINDS, Manifest
from hsdns.cluster.objects import SERVICE_NAME_LABEL
from hsdns.sources.file_text import MAX_FILE_LEN
from hsdns.sources.manifest_check import (
    GROUPS,
    check_object,
    is_written_by_hand,
    written,
    wrong_type,
)
from hsdns.sources.manifest_yaml import (
    Decoded,
    DuplicateKey,
    ForeignTag,
    ManifestLoader,
    TooLarge,
    decode_json,
    field_line,
    field_node,
    json_node,
    key_line,
    key_text,
    names_in,
    piece_at,
    piece_of,
    sentence,
)

MAX_PROBLEMS: Final = 100  # for a file; further ones are not reported
_MAX_NESTED_LISTS: Final = 8  # a List of Lists of Lists, each of which is decoded again
_MAX_BROKEN: Final = 20  # documents that are no YAML; each costs reading the lines before it again


class RefusedObject(NamedTuple):
    """An object that is not served; `sentence` has its file and line, and is the one of the problem.

    `services` are the names of Services whose answers it was for, `labels` those of the pods that it is or makes.
    """

    key: tuple[str, str, str]  # as that of a Document
    sentence: str
    services: frozenset[str] = frozenset()
    labels: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"{self.key[0]} {'/'.join(filter(None, self.key[1:]))}"


class ManifestFile(NamedTuple):
    """The contents of a file; `problems` and `warnings` are sentences with file and line.

    `refused` are the objects of problems, as far as they can be named; `is_broken` says that a part is no YAML or JSON,
    or is not read.
    """

    documents: list[Document]
    problems: list[str]
    warnings: list[str]
    refused: Sequence[RefusedObject] = ()
    is_broken: bool = False


def read_manifest_file(content: bytes, path: str) -> ManifestFile:
    """Parse all documents of a file; errors are returned in `problems`."""
    documents: list[Document] = []
    problems: list[str] = []
    warnings: list[str] = []
    refused: list[RefusedObject] = []
    is_broken = False
    if len(content) > MAX_FILE_LEN:
        too_long = f"{path}:1: the file is longer than {MAX_FILE_LEN} octets; split it"
        return ManifestFile([], [too_long], [], is_broken=True)
    for found in read_objects(content, path):
        for line, remark in islice(_warnings(found), MAX_PROBLEMS - len(warnings)):
            warnings.append(f"{path}:{line}: {remark}")
        if found.problem is not None:
            problems.append(f"{path}:{found.problem.line}: {found.problem}")
            refused += _refused(found, problems[-1])
            is_broken = is_broken or found.item is None
            if len(problems) == MAX_PROBLEMS:
                problems.append(
                    f"{path}:{found.line}: the rest of the file is not read; correct these errors first"
                )
                is_broken = True
                break
        elif found.document is not None:
            documents.append(found.document)
    return ManifestFile(documents, problems, warnings, refused, is_broken)


def _warnings(found: ObjectRead) -> Iterator[tuple[int, str]]:
    # What becomes of an address is said where it is read.
    if (
        found.kept is not None
        and found.item is not None
        and "is not an IP address" not in str(found.kept)
    ):
        sentence = f"{_display_name(found.item.head)}: {found.kept}; it is served, as its API server has it"
        yield _line_in(found.item, found.kept.field), sentence
    yield from found.remarks


def _refused(found: ObjectRead, sentence: str) -> Iterator[RefusedObject]:
    """The objects that a problem is about."""
    if found.item is None:
        for kind, namespace, name in getattr(found.problem, "names", ()):
            yield RefusedObject((kind, namespace, name), sentence, frozenset({name}))
        return
    head, value = found.item.head, found.item.value
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    kind, metadata, spec = str(head.kind), _mapping(value, "metadata"), _mapping(value, "spec")
    namespace = "" if kind in CLUSTER_SCOPED else str(metadata.get("namespace") or "default")
    of_pods = metadata if kind == "Pod" else _mapping(_mapping(spec, "template"), "metadata")
    names = [_mapping(metadata, "labels").get(SERVICE_NAME_LABEL), spec.get("serviceName")]
    if kind in ("Service", "Endpoints", "ServiceImport"):
        names.append(metadata.get("name"))
    services = frozenset(each for each in names if isinstance(each, str))
    key = (kind, namespace, str(metadata.get("name") or ""))
    yield RefusedObject(key, sentence, services, _mapping(of_pods, "labels"))


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def read_objects(content: bytes, path: str) -> Iterator[ObjectRead]:
    """Read the objects of a file one by one; an error of the file itself is the problem of the last one."""
    return _each_read(
        _json_items(content) if _looks_like_json(content, path) else _yaml_items(content), path
    )


def read_items(items: Iterable[bytes], path: str, line: int) -> Iterator[ObjectRead]:
    """Read objects in JSON that stand in a file, each in a line of its own, from a line on."""
    for number, item in enumerate(items, line):
        lines = _Lines(item, number)
        yield from _each_read(_json_objects(msgspec.Raw(item), lines, None), path)


def _each_read(
    items: Iterator[Item | ManifestError | DuplicateKey], path: str
) -> Iterator[ObjectRead]:
    try:
        for item in items:
            if isinstance(item, DuplicateKey):
                yield ObjectRead(item.line, None, remarks=iter([(item.line, sentence(item))]))
                continue
            if isinstance(item, ManifestError):
                yield ObjectRead(item.line, item.item, problem=item)
                continue
            try:
                document, kept = _read_item(item, f"{path}:{item.line}")
                yield ObjectRead(item.line, item, document, remarks=_remarks(item), kept=kept)
            except ManifestError as fault:
                yield ObjectRead(item.line, item, problem=fault, remarks=_remarks(item))
    except ManifestError as fault:
        yield ObjectRead(fault.line, None, problem=fault)


_NO_TEXT: Final = yaml.reader.Reader.NON_PRINTABLE
_NO_OBJECT = "this is not a Kubernetes object; write fields such as apiVersion, kind and metadata"
_NESTED = "it is nested too deeply; correct the file"
_BARE_LIST = "kubectl takes no bare list of objects; write them as the items of a List, or as separate documents"
_NESTED_LISTS = "lists are nested too deeply; write the objects into one list"
_NO_LIST = "items of {} is not a list; write one object per item"


class ManifestError(Exception):
    """An error message and its line; `fault` is set if the API server would refuse a field.

    `item` is the object if it could be decoded; otherwise `names` are the objects that the text seems to be about.
    """

    def __init__(
        self, line: int, message: str, fault: Refused | None = None, item: Item | None = None,
        names: Sequence[tuple[str, str, str]] = (),
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.line = line
        self.fault = fault
        self.item = item
        self.names = names


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
    duplicates: Sequence[DuplicateKey] = ()


class ObjectRead(NamedTuple):
    """One object of a file: as written, as a document unless it has a problem, and remarks with their lines.

    `kept` is about a value that an API server refuses today, in an object that one has kept.
    """

    line: int
    item: Item | None
    document: Document | None = None
    problem: ManifestError | None = None
    remarks: Iterator[tuple[int, str]] = iter(())
    kept: Refused | None = None


def _read_item(item: Item, where: str) -> tuple[Document | None, Refused | None]:
    head = item.head
    if head.kind is None and head.api_version is None:
        return None, None  # YAML, but not a manifest, such as the values of a Helm chart
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
        return _namespace_named(head, where), None
    kept: list[Refused] = []
    keep = None if is_written_by_hand(head.metadata) else kept.append
    try:
        document = check_document(head.kind, _converted(item, kind), where, keep)
        return document, next(iter(kept), None)
    except Refused as fault:
        line, name = _line_in(item, fault.field), _display_name(head)
        value = str(getattr(field_node(_node_of(item)[0], fault.field), "value", ""))
        for program, variable in _NOT_RENDERED.items():
            if found := variable.search(value):
                raise LeftOut(
                    line, f"{name} is skipped: {fault.field} has {found[0]}, which {program} was to replace; "
                    "read what that prints", item=item,
                ) from None  # fmt: skip
        raise ManifestError(line, f"{name}: {fault}", fault) from None


# What other programs replace, where it stands in a value that is refused.
_NOT_RENDERED: Final = {
    "kustomize": re.compile(r"\$\([\w.-]+\)"),
    "envsubst or Flux": re.compile(r"\$\{\w+[^}\s]*\}|\$[A-Za-z_]\w*"),
}


def _remarks(item: Item) -> Iterator[tuple[int, str]]:
    """Yield warnings about an object, with their lines."""
    head = item.head
    if not isinstance(head.kind, str) or not isinstance(head.api_version, str):
        return
    for each in item.duplicates:
        yield each.line, f"{_display_name(head)}: {sentence(each)}"
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
    # Rare, so tried second: `null` means absent, keys that are not strings are converted, and 8e1 is 80.
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
    return int(value) if isinstance(value, float) and value.is_integer() else value


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


def _yaml_items(content: bytes) -> Iterator[Item | ManifestError | DuplicateKey]:
    """The objects of all documents; one that is no YAML is left out, and what follows its end is read."""
    content, unreadable = _without_unreadable(content)
    yield from unreadable
    start, broken = 0, 0
    while start < len(content):
        # Lines before the start stay, empty, so that positions are those in the file.
        loader = ManifestLoader(b"\n" * content.count(b"\n", 0, start) + content[start:])
        try:
            while loader.check_node():
                yield from _yaml_document(loader, content)
            return
        except yaml.YAMLError as fault:
            error, (begin, end) = _yaml_fault(fault, content), piece_of(fault, content)
            broken += 1
            if end <= start or isinstance(fault, TooLarge):
                raise error from None
            error.names = names_in(content[begin:end])
            yield error
            if broken == _MAX_BROKEN:
                raise ManifestError(
                    content.count(b"\n", 0, end) + 1,
                    "the rest of the file is not read; correct these errors first",
                ) from None
            start = end
        finally:
            loader.dispose()


def _yaml_document(
    loader: ManifestLoader, content: bytes
) -> Iterator[Item | ManifestError | DuplicateKey]:
    node = loader.get_node()
    try:
        value = loader.construct_document(node)
    except yaml.YAMLError as fault:
        yield _yaml_fault(fault, content)
        return
    except (ValueError, LookupError, AttributeError, TypeError) as fault:
        # Of tags, as in `!!bool x`.
        line = node.start_mark.line + 1
        yield ManifestError(line, f"a value cannot be read ({fault}); put it in quotes")
        return
    duplicates, foreign = loader.take_duplicates(), loader.take_foreign()
    twice = [each for each in duplicates if each.is_outermost and each.key in _OF_ITSELF]
    if len({each.key for each in twice}) > 1:
        first, lines = twice[0], content.split(b"\n")
        names = names_in(b"\n".join(lines[node.start_mark.line : node.end_mark.line + 1]))
        known = f'the key "{first.key}" is already in line {first.first}'
        yield ManifestError(first.line, f'{known}; write "---" between two objects', names=names)
        return
    if foreign and not isinstance(value, dict):
        return
    items = _yaml_objects(node, value)
    try:
        yield from _with_duplicates(
            _without_foreign(items, foreign) if foreign else items, duplicates
        )
    except ManifestError as fault:
        yield fault


# Two objects without "---" between them have each of these twice.
_OF_ITSELF: Final = ("apiVersion", "kind", "metadata")


def _without_unreadable(content: bytes) -> tuple[bytes, list[ManifestError]]:
    """The content without documents that have octets which are no text, but with their lines; libyaml reads ahead."""
    errors: list[ManifestError] = []
    while True:
        try:
            text = content.decode()
            found = _NO_TEXT.search(text)
            if found is None:
                return content, errors
            at = len(text[: found.start()].encode())
            reason = "control characters are not allowed"
        except UnicodeDecodeError as fault:
            at, reason = fault.start, fault.reason
        begin, end = piece_at(content, at)
        line = content.count(b"\n", 0, at) + 1
        names = names_in(content[begin:end])
        sentence = f"not YAML: {reason}; write the file in UTF-8"
        errors.append(ManifestError(line, sentence, names=names))
        if len(errors) == _MAX_BROKEN:
            end = len(content)
        piece = b"\n" * content.count(b"\n", begin, end)
        content = content[:begin] + piece + content[end:]


def _with_duplicates(
    items: Iterator[Item | ManifestError], found: list[DuplicateKey]
) -> Iterator[Item | ManifestError | DuplicateKey]:
    """The objects with their duplicate keys; and those of a list of objects."""
    left = found
    for item in items:
        if left and isinstance(item, Item):
            first, last = item.node.start_mark.line + 1, item.node.end_mark.line + 1
            own = [each for each in left if first <= each.line <= last]
            left = [each for each in left if each not in own]
            item = item._replace(duplicates=own)
        yield item
    yield from left


def _without_foreign(
    items: Iterator[Item | ManifestError], tags: list[ForeignTag]
) -> Iterator[Item | ManifestError]:
    """The objects, but those with tags of other programs; what is no object is of such a program anyway."""
    starts = [each.start for each in tags]
    for item in items:
        if isinstance(item, ManifestError):
            yield item
            continue
        at = bisect_left(starts, item.node.start_mark.index)
        if at < len(tags) and tags[at].start < item.node.end_mark.index:
            if item.head.kind is not None or item.head.api_version is not None:
                yield LeftOut(
                    tags[at].line,
                    f"{_display_name(item.head)} is skipped: {tags[at].tag} is a tag of another program, which writes "
                    "another value there; check what it writes",
                    item=item,
                )
        else:
            yield item


def _yaml_objects(
    node: Any, value: Any, of: Head | None = None, above: int = 0
) -> Iterator[Item | ManifestError]:
    line = node.start_mark.line + 1
    if above > _MAX_NESTED_LISTS:
        raise ManifestError(line, _NESTED_LISTS)
    if isinstance(value, list) and of is None:
        _refuse_objects(value, line)
        return
    if value is None:
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
    nodes = field_node(node, "items")
    inner = _inner_head(head)
    for each, item in zip(nodes.value if nodes else [], items, strict=False):
        try:
            yield from _yaml_objects(each, item, inner, above + 1)
        except ManifestError as fault:
            yield fault


def _refuse_objects(values: Sequence[Any], line: int) -> None:
    """Raise ManifestError if a list, which is of another program as a rule, has objects."""
    names = []
    for each in values:
        if isinstance(each, dict) and each.keys() >= {"apiVersion", "kind"}:
            kind, metadata = str(each["kind"]), _mapping(each, "metadata")
            namespace = "" if kind in CLUSTER_SCOPED else str(metadata.get("namespace", "default"))
            names.append((kind, namespace, str(metadata.get("name", ""))))
    if names:
        raise ManifestError(line, _BARE_LIST, names=names)


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
    return ManifestError(1, f"not YAML: {fault}; correct the file")


# JSON


class _JsonHead(msgspec.Struct, rename="camel"):
    api_version: Any = None
    kind: Any = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    items: msgspec.Raw = msgspec.Raw(b"null")


_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_JSON_NAME: Final = re.compile(r"\.(json|jsonl|ndjson)(\.gz)?$")


def _looks_like_json(content: bytes, path: str) -> bool:
    # With "---" between them, as kubectl too takes it, values of JSON are documents of YAML.
    first = content.lstrip()[:1]
    is_named = _JSON_NAME.search(path) is not None and b"\n---" not in content
    # Under another name, a flow mapping of YAML is no valid JSON.
    return (first == b"{" and (is_named or is_json(content))) or (first == b"[" and is_named)


def is_json(content: bytes) -> bool:
    """Whether the content is a value of JSON, or begins with one that another one follows."""
    end = _json_end(content, 0)
    return end is not None and content[end : end + 1] in (b"", b"{")


def _json_end(content: bytes, start: int) -> int | None:
    """Where the value of JSON that begins there ends, with the space after it; None if it is malformed."""
    try:
        msgspec.json.decode(memoryview(content)[start:], type=msgspec.Raw)
    except msgspec.DecodeError as fault:
        trailing = _TRAILING.search(str(fault))
        return start + int(trailing[1]) - 1 if trailing else None  # the first of them is counted
    except RecursionError:
        return None
    return len(content)


def _json_items(content: bytes) -> Iterator[Item | ManifestError | DuplicateKey]:
    lines, start = _Lines(content), 0
    while start < len(content):
        end = _json_end(content, start)
        if end is None:  # the next value is surely one if it begins a line
            end = content.find(b"\n{", start) + 1 or len(content)
        try:
            yield from _json_objects(msgspec.Raw(content[start:end]), lines, None)
        except ManifestError as fault:
            yield fault
        start = end


class _Lines:
    """Finds the lines of substrings; call line_of() in the order of the text."""

    def __init__(self, content: bytes, line: int = 1) -> None:
        self._content = content
        self._at = 0
        self._line = line

    def line_of(self, piece: bytes) -> int:
        """Return the line in which a substring begins."""
        found = self._content.find(piece, self._at)
        self._line += self._content.count(b"\n", self._at, found)
        self._at = found
        return self._line


def _json_objects(
    raw: msgspec.Raw, lines: _Lines, of: Head | None, above: int = 0
) -> Iterator[Item | ManifestError | DuplicateKey]:
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
            with suppress(RecursionError, msgspec.DecodeError):
                _refuse_objects(msgspec.json.decode(text), line)
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
        yield Item(
            line, head, msgspec.Raw(text), fields=decoded.value, duplicates=decoded.duplicates
        )
        return
    inside = bytes(found.items)
    around = text.replace(inside, b"null" + b"\n" * inside.count(b"\n"))
    yield from _decoded(around, line).duplicates
    try:
        items = msgspec.json.decode(found.items, type=list[msgspec.Raw] | None) or []
    except msgspec.ValidationError:
        raise ManifestError(line, _NO_LIST.format(head.kind)) from None
    inner = _inner_head(head)
    for item in items:
        try:
            yield from _json_objects(item, lines, inner, above + 1)
        except ManifestError as fault:
            yield fault


def _decoded(text: bytes, line: int) -> Decoded:
    try:
        return decode_json(text, line)
    except RecursionError:
        raise ManifestError(line, _NESTED) from None
    except yaml.YAMLError:
        raise ManifestError(line, "a mapping has a key twice; remove one of the two") from None
