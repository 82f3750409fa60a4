"""A YAML loader with limits: the input may be malicious.

Path: manifest_file.py reads each document with it.
Rule 1: nodes are counted while they are composed, and again with the nodes that aliases stand for before values are
        made of them (CVE-2019-11253).  The limit of each count is for all documents of the file: MAX_NODES, or for a
        longer file one node for NODE_LEN octets.
Rule 2: nesting is bounded (MAX_DEPTH), through aliases too.
Rule 3: keys become text, as in Kubernetes; numbers as keys could be chosen to have the same hash.
Rule 4: duplicate keys of a mapping are recorded with both lines, because the last one silently replaces the others.
Rule 5: a tag of another program, such as `!Ref` or `!vault`, is recorded with its line, and its node is read as if it
        had no tag.  No Python object is ever made from a tag.
Rule 6: words without quotes are numbers and truth values where kubectl takes them for that, such as `12345e7`, `08` and
        `y`; `12:30` is text.  A number has at most MAX_NUMBER_LEN characters: the time for long ones grows with the
        square of their length.
Rule 7: a document with an error is bounded in the text, so that the others are read, and so are the names of what it
        seems to be about.
Source: go-yaml v2 resolve.go, which sigs.k8s.io/yaml has a copy of.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

import yaml

from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED
from hsdns.wire import printable

MAX_DEPTH: Final = 100
MAX_NODES: Final = 100_000
NODE_LEN: Final = 5  # octets; Services with one-word names, written in lines, have 7 for each node
MAX_NUMBER_LEN: Final = 100
MAX_SHOWN_LEN: Final = 60
MAX_TAGS: Final = 4096  # scalars whose tags are remembered
_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT: Final = "tag:yaml.org,2002:str"
_WORDS: Final = (_TEXT, "tag:yaml.org,2002:value")  # the second is the tag of a single "="
_BOOL: Final = "tag:yaml.org,2002:bool"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
# What PyYAML resolves otherwise, with the first characters.  Each word of a pattern has one way to match.
_RESOLVED: Final = (
    (_BOOL, r"[yYnN]$", "yYnN"),
    (_INT, r"[-+]?(0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)$",
     "-+0123456789"),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?_*[0-9][0-9_]*)?$", "-+.0123456789"),
    (_FLOAT, r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$", "-+."),
)  # fmt: skip

# CSafeLoader is ten times as fast, but not every build of PyYAML has it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooLarge(yaml.YAMLError):
    """A document that exceeds a limit; `problem` is a sentence about what begins in `line`."""

    def __init__(self, problem: str, node: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line: int = node.start_mark.line + 1 if node is not None else 1


class DuplicateKey(NamedTuple):
    """A key that a mapping has twice; lines count from 1."""

    key: str
    first: int
    line: int
    is_outermost: bool  # the mapping is not indented


class ForeignTag(NamedTuple):
    """A tag of another program, and where in the file what has it begins; lines count from 1."""

    start: int
    tag: str
    line: int


class ManifestLoader(_Base):  # type: ignore[misc]  # chosen at run time
    """YAML as Kubernetes reads it: without the timestamp type, with its numbers, and with text as keys."""

    # PyYAML's own class attributes, replaced rather than changed.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in listed if each[0] not in ("tag:yaml.org,2002:timestamp", _INT, _FLOAT)]
        for first, listed in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }  # fmt: skip
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._left = self._left_expanded = self._limit = max(MAX_NODES, len(content) // NODE_LEN)
        self._depth = 0
        self._has_aliases = b"*" in content
        self._tags: dict[str, str] = {}  # of plain scalars
        self._merged: set[Any] = set()  # mappings whose merge keys have been replaced
        self._duplicates: list[DuplicateKey] = []
        self._foreign: list[ForeignTag] = []

    # PyYAML calls these two methods before and after it composes a node, to resolve tags by paths; there are no such
    # tags.

    def descend_resolver(self, parent: Any, index: Any) -> None:
        """Count a node; raise TooLarge."""
        self._left -= 1
        self._depth += 1
        if self._left < 0:
            raise TooLarge(
                "there are too many values for the length of the file; is it a manifest?", parent
            )
        if self._depth > MAX_DEPTH:
            raise TooLarge(
                f"it is nested more than {MAX_DEPTH} levels deep; correct the file", parent
            )

    def ascend_resolver(self) -> None:
        """Leave a node."""
        self._depth -= 1

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag of a node without one; most scalars of manifests have been seen before."""
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)
        tag = self._tags.get(value)
        if tag is None:
            tag = super().resolve(kind, value, implicit)
            if len(self._tags) < MAX_TAGS and len(value) <= MAX_SHOWN_LEN:
                self._tags[value] = tag
        return tag

    def get_node(self) -> Any:
        """Compose the next document; raise TooLarge."""
        return self._counted(super().get_node())

    def get_single_node(self) -> Any:
        """Compose the only document, None if there is none; raise TooLarge."""
        return self._counted(super().get_single_node())

    def _counted(self, document: Any) -> Any:
        """Count the nodes of a document and those that its aliases stand for."""
        if self._has_aliases and document is not None:
            self._left_expanded -= self._measure(document, {})[0]
        return document

    def _measure(self, node: Any, known: dict[Any, tuple[int, int] | None]) -> tuple[int, int]:
        """Return the number of nodes and the depth of a node, including what its aliases stand for.

        An anchor precedes its aliases, so it is known when they are reached, and the recursion is no deeper than the
        text.
        """
        if isinstance(node, yaml.ScalarNode):
            return 1, 1
        if node in known:
            found = known[node]
            if found is None:
                raise TooLarge("it contains itself through an alias; write it out", node)
            return found
        known[node] = None
        size, depth = 1, 0
        children = (
            [each for pair in node.value for each in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        for child in children:
            inner_size, inner_depth = self._measure(child, known)
            size += inner_size
            depth = max(depth, inner_depth)
        if size > self._left_expanded:
            raise TooLarge(
                f"the aliases of the file stand for more than {self._limit} values; write it out",
                node,
            )
        if depth >= MAX_DEPTH:
            raise TooLarge(
                f"it is nested more than {MAX_DEPTH} levels deep through aliases; write it out",
                node,
            )
        known[node] = size, depth + 1
        return size, depth + 1

    def take_duplicates(self) -> list[DuplicateKey]:
        """Return the duplicate keys of the mappings constructed since the last call."""
        found, self._duplicates = self._duplicates, []
        return sorted(set(found), key=lambda each: each.line)

    def take_foreign(self) -> list[ForeignTag]:
        """Return the tags of other programs in what was constructed since the last call, in the order of the file."""
        found, self._foreign = self._foreign, []
        return sorted(found)

    def construct_foreign(self, node: Any) -> Any:
        """Make what the node would be without its tag, and note that."""
        mark = node.start_mark
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._foreign.append(ForeignTag(mark.index, shown(tag), mark.line + 1))
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)

    def construct_document(self, node: Any) -> Any:
        """Make the value of a document; after an error the next one can be made."""
        try:
            return super().construct_document(node)
        except Exception:
            self.constructed_objects: dict[Any, Any] = {}
            self.recursive_objects: dict[Any, Any] = {}
            self.state_generators: list[Any] = []
            self.deep_construct = False
            self._duplicates, self._foreign = [], []
            raise

    def flatten_mapping(self, node: Any) -> None:
        """Replace the merge keys of a mapping, only once: afterwards they cannot be told from its own keys."""
        if node in self._merged:
            return
        own = [key for key, _ in node.value if key.tag != _MERGE]
        texts = [self._key(key) for key in own]
        if len(set(texts)) < len(texts):
            self._note_duplicate(own, texts)
        if len(own) < len(node.value):
            self._merged.add(node)
            own_pairs, merged = [], list[Any]()
            # PyYAML's time for many merge keys of one mapping grows with the square of their number.
            for pair in node.value:
                if pair[0].tag == _MERGE:
                    part = yaml.MappingNode(node.tag, [pair], node.start_mark, node.end_mark)
                    super().flatten_mapping(part)
                    merged += part.value
                else:
                    own_pairs.append(pair)
            node.value = merged + own_pairs

    def _note_duplicate(self, nodes: list[Any], keys: list[str]) -> None:
        lines: dict[str, int] = {}
        for node, key in zip(nodes, keys, strict=True):
            mark = node.start_mark
            if key in lines:
                found = DuplicateKey(key, lines[key], mark.line + 1, mark.column == 0)
                self._duplicates.append(found)
            lines[key] = mark.line + 1

    def _key(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise TooLarge("a key is not text; write a word", node)
        # Most keys are text already.
        return node.value if node.tag in _WORDS else key_text(self.construct_object(node))

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """Make a mapping with text as keys."""
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            is_text = value_node.tag == _TEXT and isinstance(value_node, yaml.ScalarNode)
            value = value_node.value if is_text else self.construct_object(value_node, deep=deep)
            found[self._key(key_node)] = value
        return found

    def construct_number(self, node: Any) -> Any:
        """Make a number from a scalar; raise TooLarge."""
        if len(node.value) > MAX_NUMBER_LEN:
            raise TooLarge(
                f"a number has more than {MAX_NUMBER_LEN} characters; put it in quotes", node
            )
        text = self.construct_scalar(node).replace("_", "").lower()
        if node.tag == _FLOAT:
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        digits = text.lstrip("-+")
        return int(text, 8 if digits.startswith("0") and digits.isdecimal() else 0)


# PyYAML knows the tag of a single "=", as in the enumerations of some definitions, but has no constructor for it.
ManifestLoader.add_constructor(_WORDS[1], yaml.SafeLoader.construct_yaml_str)
ManifestLoader.add_constructor(None, ManifestLoader.construct_foreign)
for _tag in (_INT, _FLOAT):
    ManifestLoader.add_constructor(_tag, ManifestLoader.construct_number)
for _tag, _pattern, _first in _RESOLVED:
    ManifestLoader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def key_text(key: object) -> str:
    """Return a key as text: booleans as in JSON, others as Python writes them."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def shown(word: str) -> str:
    """Return a word for a message: on one line, with at most MAX_SHOWN_LEN characters."""
    text = printable(word[:MAX_SHOWN_LEN])
    return text if len(word) <= MAX_SHOWN_LEN else f"{text}..."


# Position of a field: the line of `spec.ports[0].port` in the text of an object.
#
# Rule 1: lines come from the nodes that PyYAML composes before it makes values; they are kept with each object of a
#         file only while that object is checked.
# Rule 2: a field that is not in the text has the line of its nearest parent that is.


# `.name`, `[0]` or, for keys with dots, `[app.kubernetes.io/name]`
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def field_line(node: Any, field: str) -> int:
    """The line, from 1, of a field below a YAML node."""
    return field_place(node, field)[0]


def field_place(node: Any, field: str) -> tuple[int, int]:
    """The line and the column, from 1, of a field below a YAML node."""
    top = node
    for bracketed, word in _STEP.findall(field):
        step = bracketed or word
        found = _child(node, step)
        if found is None:
            break
        node = found
    if isinstance(node, yaml.MappingNode) and node is not top:
        for key, value in node.value:
            is_text = value.tag == "tag:yaml.org,2002:str" or not isinstance(value, yaml.ScalarNode)
            if not is_text and field.endswith(("labels", "annotations", "selector")):
                return _place(key)
    return _place(node)


def field_node(node: Any, field: str) -> Any:
    """The YAML node of a field, None if it is not in the text."""
    for bracketed, word in _STEP.findall(field):
        node = _child(node, bracketed or word)
    return node


def key_node(node: Any, field: str) -> Any:
    """The YAML node of the key of a field, None if it is not in the text."""
    *above, (bracketed, word) = _STEP.findall(field)
    for outer, step in above:
        node = _child(node, outer or step)
    listed = reversed(node.value) if isinstance(node, yaml.MappingNode) else ()
    return next((key for key, _ in listed if key.value == (bracketed or word)), None)


def key_line(node: Any, parent: str, key: str) -> int:
    """The line, from 1, of a key in the mapping `parent`; the node's line if there is no such key."""
    mapping = node
    for bracketed, word in _STEP.findall(parent):
        mapping = _child(mapping, bracketed or word)
    listed = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    found = next((each for each, _ in listed if each.value == key), node)
    return int(found.start_mark.line) + 1


def json_node(text: bytes) -> Any:
    """The node of an object in JSON, read as YAML; None if it is not YAML."""
    try:
        return yaml.compose(text, Loader=ManifestLoader)
    except yaml.YAMLError:
        return None


def _place(node: Any) -> tuple[int, int]:
    return int(node.start_mark.line) + 1, int(node.start_mark.column) + 1


def _child(node: Any, step: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in reversed(node.value) if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)]
    return None


# Duplicate keys of a mapping, of which the last one counts, as for kubectl and the API server.


class Decoded(NamedTuple):
    """An object in JSON; its numbers are text.  `value` is None if not all of it is valid."""

    value: Any
    duplicates: list[DuplicateKey]


def sentence(found: DuplicateKey) -> str:
    """A sentence about where the key occurs before, and what to do."""
    key = shown(found.key)
    return f'the key "{key}" is already in line {found.first}, and the last one counts; remove the others'


def decode_json(text: bytes, line: int) -> Decoded:
    """Decode JSON, whose first line has the number `line`; raise RecursionError.

    For duplicate keys in a text beyond the limits of manifest_yaml.py, raise YAMLError.
    """
    has_duplicates = False

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        found = dict(pairs)
        has_duplicates = has_duplicates or len(found) < len(pairs)
        return found

    # The time for a long number grows with the square of its length.
    try:
        value = json.loads(text, object_pairs_hook=make, parse_int=str, parse_float=str)
    except ValueError:
        return Decoded(None, [])  # such as octets that are not UTF-8 in a field that is not read
    return Decoded(value, _positions(text, line) if has_duplicates else [])


def _positions(text: bytes, line: int) -> list[DuplicateKey]:
    """Find the lines; JSON is a subset of YAML, whose nodes have them.  Raise YAMLError beyond the limits of YAML."""
    loader = ManifestLoader(text)
    loader.get_single_data()
    return [
        each._replace(first=each.first + line - 1, line=each.line + line - 1, is_outermost=False)
        for each in loader.take_duplicates()
    ]


_SEPARATOR: Final = re.compile(rb"^---(?=\s|$)", re.MULTILINE)


def piece_of(fault: yaml.YAMLError, content: bytes) -> tuple[int, int]:
    """Where the document with an error of its syntax begins and ends; the end is 0 if that is not known."""
    mark = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    if mark is None:
        return 0, 0
    at = 0
    for _ in range(mark.line):  # the end of the last line may be missing
        at = content.find(b"\n", at) + 1 or len(content)
    if _SEPARATOR.match(content, at) and mark.column == 0:
        at -= 1  # what ends there is wrong
    return piece_at(content, at)


def piece_at(content: bytes, at: int) -> tuple[int, int]:
    """The beginning and the end of the document at a position."""
    begin = max(content.rfind(b"\n---", 0, at + 1) + 1, 0)
    following = _SEPARATOR.search(content, at + 1)
    return begin, following.start() if following else len(content)


_TOP_FIELD: Final = re.compile(r"^(kind|metadata):(.*(?:\n[ \t].*)*)", re.MULTILINE)
_NAME_FIELD: Final = re.compile(r"(?<![\w./-])(name|namespace):\s*[\"']?([\w.-]+)")
_MAX_SEARCHED: Final = 100_000


def names_in(text: bytes) -> list[tuple[str, str, str]]:
    """The objects that a text which cannot be decoded seems to be about: kind, namespace and name."""
    found: dict[str, list[str]] = {"kind": [], "metadata": []}
    for each in _TOP_FIELD.finditer(text[:_MAX_SEARCHED].decode("utf-8", "replace")):
        found[each[1]].append(each[2].strip())
    named = [dict(reversed(_NAME_FIELD.findall(each))) for each in found["metadata"]]
    return [
        (kind, "" if kind in CLUSTER_SCOPED else each.get("namespace", "default"), each["name"])
        for kind, each in zip(found["kind"], named, strict=False)
        if "name" in each
    ]
