"""Reads the text of a rule: words on a line of a Corefile, or on a command line.

Path: plugins/fault.py and server/faults.py -> here -> action.py, selector.py.

    ACTION [SELECTOR...] [OPTION...]
    drop name below shop.svc.cluster.local. type AAAA share 0.5 seed 7 for 10m named lossy

Rule 1: consecutive selectors must all match; `or` has the lowest precedence, `not` and brackets the highest.
Rule 2: an error is a sentence about one word, with the nearest known one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from ipaddress import ip_address, ip_network
from typing import Any, Final, TypeVar

from hsdns.cluster.objects import Selector as LabelSelector
from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.faults import action, selector, state
from hsdns.faults.action import Action
from hsdns.faults.rules import MAX_SEED, RuleError, Wanted
from hsdns.faults.selector import Asked, ClientPod, Fact, Selector
from hsdns.wire.iana import Rcode, rcode_from_text, rcode_to_text, type_from_text, type_to_text
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name

T = TypeVar("T")
MAX_WORDS: Final = 200
MAX_LIFETIME: Final = 7 * 24 * 3600.0  # seconds
MAX_COUNT: Final = 1_000_000
_MAX_TTL: Final = 2**31 - 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_PARENTHESIS: Final = re.compile(r"(\\.)|[()]")  # but not an escaped one, which a name may contain
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")
_FLOWS: Final = ("first", "second", "existing", "new")
_RCODES: Final = tuple(rcode_to_text(number) for number in range(1, 11))
# Of other programs, for what rules call otherwise.
_OTHER_WORDS: Final = {"error": "rcode SERVFAIL", "random": "answer random", "timeout": "drop"}
_TYPES: Final = ("A", "AAAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT", "HTTPS")


def read_rule(words: Sequence[str], servers: Sequence[str] = ()) -> Wanted:
    """Read a rule; raise RuleError.  `servers` are the listeners, as metrics name them."""
    spaced = [
        (part, at)
        for at, word in enumerate(words)
        for part in _PARENTHESIS.sub(lambda found: found[1] or f" {found[0]} ", word).split()
    ]
    if len(spaced) > MAX_WORDS:
        raise RuleError(f"a rule has at most {MAX_WORDS} words, found {len(spaced)}")
    return _Reader(spaced, servers).rule()


class _Reader:
    """The words of a rule, each with the number of its original word, and the current position."""

    def __init__(self, words: Sequence[tuple[str, int]], servers: Sequence[str]) -> None:
        self._words, self._servers = words, servers
        self._at = 0

    def rule(self) -> Wanted:
        """Read all of it."""
        if not self._words:
            raise RuleError(f"a rule begins with what it does: {', '.join(ACTIONS)}")
        does = self._known(ACTIONS, "action")(self)
        condition: Selector = selector.And(())
        if self._next and self._next not in OPTIONS:
            condition = self._any_of()
        if why := does.misfit(condition):
            raise RuleError(why)
        options = self._options()
        return Wanted(does, condition, **options)  # type: ignore[arg-type]  # OPTIONS has their types

    # selectors

    def _any_of(self) -> Selector:
        found = [self._all_of()]
        while self._next == "or":
            self._at += 1
            found.append(self._all_of())
        return found[0] if len(found) == 1 else selector.Or(found)

    def _all_of(self) -> Selector:
        found = [self._single()]
        while not self._ends_here:
            if self._next == "and":
                self._at += 1
            found.append(self._single())
        return found[0] if len(found) == 1 else selector.And(found)

    def _single(self) -> Selector:
        if self._ends_here:
            raise self._error(
                f"a selector is missing {self._place()}; the selectors are {', '.join(SELECTORS)}"
            )
        if self._next == "not":
            self._at += 1
            return selector.Not(self._single())
        if self._next == "(":
            self._at += 1
            found = self._any_of()
            if self._next != ")":
                raise self._error(f'a closing bracket ")" is missing {self._place()}')
            self._at += 1
            return found
        return self._known(SELECTORS, "selector", (*OPTIONS, "and", "or", "not"))(self)

    # options

    def _options(self) -> dict[str, object]:
        found: dict[str, object] = {}
        while self._next:
            word = self._next
            field, read = self._known(OPTIONS, "option")
            if field in found:
                raise self._error(f'"{word}" is given twice', back=1)
            found[field] = read(self)
        return found

    # words

    @property
    def _next(self) -> str:
        return self._words[self._at][0] if self._at < len(self._words) else ""

    @property
    def _ends_here(self) -> bool:
        """Whether no further selector follows."""
        return self._next in ("", "or", ")") or self._next in OPTIONS

    def _place(self) -> str:
        return f'before "{self._next}"' if self._next else "at the end of the rule"

    def _error(self, sentence: str, *, back: int = 0) -> RuleError:
        at = min(self._at - back, len(self._words) - 1)
        return RuleError(sentence, self._words[at][1])

    def _known(self, known: Mapping[str, T], what: str, others: Sequence[str] = ()) -> T:
        word = self._next
        found = known.get(word)
        if found is None:
            if word == ")":
                raise self._error('a closing bracket ")" without an opening one')
            meant = f"rcode {word.upper()}" if word.upper() in _RCODES else _OTHER_WORDS.get(word)
            hint = f'; did you mean "{meant}"?' if meant and known is ACTIONS else ""
            hint = (
                hint or did_you_mean(word, (*known, *others)) or f"; there are {', '.join(known)}"
            )
            raise self._error(f'"{word}" is no {what} of a fault{hint}')
        self._at += 1
        return found

    def word(self, what: str) -> str:
        """Take the next word."""
        word = self._next
        if not word:
            raise self._error(f'"{self._words[-1][0]}" needs {what}')
        self._at += 1
        return word

    def parsed(self, what: str, parse: Callable[[str], T], near: Sequence[str] = ()) -> T:
        """Take the next word, for which `parse` raises ValueError if it is not `what`."""
        word = self.word(what)
        try:
            return parse(word)
        except ValueError:
            hint = did_you_mean(word.upper() if near and near[0].isupper() else word, near)
            if near and not hint and near[0] not in _TYPES:
                hint = f"; there are {', '.join(near)}"
            raise self._error(f'"{word}" is not {what}{hint}', back=1) from None

    def has_number(self) -> bool:
        """Whether the next word is a number."""
        return _NUMBER.fullmatch(self._next) is not None

    def checked(
        self,
        what: str,
        pattern: re.Pattern[str],
        holds: Callable[[T], bool],
        read: Callable[[str], T],
    ) -> T:
        """Take the next word, which matches a pattern and whose value `holds`."""

        def parse(word: str) -> T:
            if not pattern.fullmatch(word) or not holds(value := read(word)):
                raise ValueError
            return value

        return self.parsed(what, parse)

    def number(self, what: str, low: int, high: int) -> int:
        """Take a whole number."""
        what = f"{what} from {low} to {high}"
        return self.checked(what, _NUMBER, lambda found: low <= found <= high, int)

    def decimal(self, what: str, low: float, high: float) -> float:
        """Take a number above `low` and at most `high`."""
        what = f"{what} above {low:g}, up to {high:g}"
        return self.checked(what, _DECIMAL, lambda found: low < found <= high, float)

    def seconds(self, high: float, low: float = 0.0) -> tuple[float, str]:
        """Take a duration; return it as text too."""

        def parse(word: str) -> float:
            found = parse_duration(word)
            if found is None or not low <= found <= high or math.isnan(found):
                raise ValueError
            return found

        least, most = duration_to_text(low), duration_to_text(high)
        found = self.parsed(f"a duration such as 200ms or 5s, from {least} to {most}", parse)
        return found, duration_to_text(found)

    def name(self) -> Name:
        """Take a domain name."""
        return self.parsed("a domain name", Name.from_text)

    def one_of(self, what: str, known: Sequence[str]) -> str:
        """Take one of some words."""
        return self.parsed(what, lambda word: known[known.index(word)], known)

    # words with several kinds of arguments

    def delay(self) -> Action:
        """Take the arguments of `delay`."""
        distribution = self._next if self._next in ("normal", "pareto") else ""
        if distribution:
            self._at += 1
        first, shown = self.seconds(action.MAX_DELAY)
        if distribution == "normal":
            deviation, spread = self.seconds(action.MAX_DELAY)
            text = f"delay normal {shown} {spread}"
            return action.Delay(text, lambda random: random.gauss(first, deviation))
        if distribution == "pareto":
            shape = self.decimal("a shape", 0, 100)
            text = f"delay pareto {shown} {shape:.10g}"
            return action.Delay(text, lambda random: first * random.paretovariate(shape))
        return action.Delay(f"delay {shown}", lambda random: first)

    def die(self) -> Action:
        """Take the arguments of `die`."""
        dead, shown = self.seconds(MAX_LIFETIME)
        text, pending = f"die {shown}", None
        if self._next == "pending":
            self._at += 1
            pending = self.number("a number of queries", 1, MAX_COUNT)
            text += f" pending {pending}"
        return action.Restart(text, dead, pending)

    def answer(self) -> Action:
        """Take the argument of `answer`."""
        word = self.word('an address, a domain name, or "random"')
        if word == "random":
            return action.AnswerRandom()
        with suppress(ValueError):
            return action.answer_address(str(ip_address(word)))
        if "." not in word:
            raise self._error(
                f'"{word}" is a name of one label, which no program looks up; '
                f'write an address, a whole name, "random", or "{word}." if it is meant',
                back=1,
            )
        self._at -= 1
        return action.AnswerName(self.name())

    def rcode(self) -> Action:
        """Take the argument of `rcode`."""
        found = self.parsed("an rcode of a failure", _rcode, _RCODES)
        return action.Send(
            f"rcode {rcode_to_text(found)}", lambda query: unwritten(found), action.any_query
        )

    def watch(self) -> Action:
        """Take the arguments of `watch`."""
        if self.one_of("what becomes of a watch", state.OUTCOMES) == "away":
            return state.WatchAction()
        return state.WatchAction(self.one_of("a resource that is watched", state.RESOURCES))

    def name_is(self) -> Selector:
        """Take the arguments of `name`."""
        form = self._next if self._next in ("below", "like") else ""
        self._at += bool(form)
        if form == "like":
            return selector.name_like(self.word("a pattern such as *.example.org"))
        stars = [each for each in self._next.split(".") if "?" in each or "*" in each]
        if stars and (form or {*stars} != {"*"}):
            raise self._error(
                f'"{self._next}" would match no name: "*" stands for a whole label of "name", and nothing else is a '
                f'wildcard; write "name like {self._next}"'
            )
        return selector.name_below(self.name()) if form else selector.name_is(self.name())

    def type_is(self) -> Selector:
        """Take the argument of `type`."""
        found = self.parsed("a record type", type_from_text, _TYPES)
        return Fact(f"type {type_to_text(found)}", found, lambda asked, age: asked.qtype == found)

    def transport(self) -> Selector:
        """Take the argument of `transport`."""
        found = self.one_of("a transport", selector.TRANSPORTS)
        return Fact(
            f"transport {found}",
            found,
            lambda asked, age: selector.is_known(asked.transport, found),
        )

    def client(self) -> Selector:
        """Take the argument of `client`: an address, or a network that contains it."""
        found = self.parsed("an address or a network", lambda word: ip_network(word, strict=False))
        shown = found.network_address if found.num_addresses == 1 else found
        return selector.of_client(
            f"client {shown}", found, lambda asked: ip_address(asked.client.address) in found
        )

    def pod(self) -> Selector:
        """Take the argument of `pod`: the Pod that has the client's address; `*` for any Pod of the namespace."""
        namespace, slash, name = self._next.partition("/")
        if slash and any(each in name for each in "=!,"):
            raise self._error(f'"{name}" is not the name of a pod; write "labels {self._next}"')

        def parse(word: str) -> Selector:
            if not (_LABEL.fullmatch(namespace) and (name == "*" or _POD.fullmatch(name))):
                raise ValueError
            found = namespace.lower().encode()

            def holds(asked: Asked) -> bool:
                pod = asked.pod_of(asked.client.address)
                return pod is not None and pod.namespace == found and name in (pod.name, "*")

            return selector.of_client(f"pod {word}", ClientPod(found, name), holds)

        return self.parsed("NAMESPACE/NAME of a pod, or NAMESPACE/*", parse)

    def labels(self) -> Selector:
        """Take the argument of `labels`: the labels of the Pod that has the client's address."""

        def parse(word: str) -> Selector:
            namespace, _, text = word.partition("/")
            wanted = LabelSelector.from_text(text)
            if not (namespace == "*" or _LABEL.fullmatch(namespace)):
                raise ValueError
            found = namespace.lower().encode()

            def holds(asked: Asked) -> bool | None:
                pod = asked.pod_of(asked.client.address)
                if pod is None or found not in (pod.namespace, b"*"):
                    return False
                return None if pod.labels is None else wanted.matches(pod.labels)

            return selector.of_client(f"labels {namespace}/{wanted}", ClientPod(found, "*"), holds)

        what = (
            "NAMESPACE/SELECTOR such as shop/app=web,tier!=test, or */SELECTOR for all namespaces"
        )
        return self.parsed(what, parse)

    def asked(self) -> Selector:
        """Take the argument of `asked`: the destination address of the query, for example of one replica."""
        found = self.parsed("an IP address", lambda word: str(ip_address(word)))
        return Fact(
            f"asked {found}", found, lambda asked, age: selector.is_known(asked.local, found)
        )

    def listener(self) -> Selector:
        """Take the argument of `listener`, as metrics name it."""
        found = self.one_of("a listener of this server", self._servers)
        return Fact(
            f"listener {found}",
            found,
            lambda asked, age: asked.server == found,
            lambda zone: zone.server == found,
        )

    def flow(self) -> Selector:
        """Take the arguments of `flow`.

        The first query of a five-tuple; the second one, if it comes soon; or, from a given age of the rule on, those of
        five-tuples that were seen before it, or of all others.
        """
        word = self.one_of("a kind of flow", _FLOWS)
        if word == "first":
            return selector.Flow("flow first", lambda age, began, count: count == 1)
        seconds, shown = self.seconds(MAX_LIFETIME)
        text = f"flow {word} {shown}"
        if word == "second":
            return selector.Flow(
                text, lambda age, began, count: count == 2 and age - began <= seconds, seconds
            )
        is_old = word == "existing"
        return selector.Flow(
            text,
            lambda age, began, count: age >= seconds and (began < seconds) == is_old,
            seconds,
        )

    def period(self, word: str) -> Selector:
        """Take the argument of `after` and `before`: the time for which the rule has been active."""
        seconds, shown = self.seconds(MAX_LIFETIME)
        is_after = word == "after"
        return Fact(
            f"{word} {shown}",
            seconds,
            lambda asked, age: (age >= seconds) == is_after,
            seconds=seconds,
        )

    def own_name(self) -> str:
        """Take the name of a rule."""
        what = "a name of at most 63 letters, digits, dots and dashes"
        return self.checked(what, _NAME, bool, str)


_RECORDS: Final = ("a number of records", 0, 65535)


@dataclass(frozen=True)
class Words:
    """A part of a rule as an object, whose text str() is: an action, a selector, or several selectors.

    `parts` are words, and selectors with their arguments; `&`, `|` and `~` join and negate selectors.
    """

    parts: tuple[str | tuple[When, tuple[object, ...]], ...]

    def __and__(self, other: Words) -> Words:
        """Both."""
        return Words((*self.parts, *other.parts))

    def __or__(self, other: Words) -> Words:
        """Either."""
        return Words(("(", *self.parts, "or", *other.parts, ")"))

    def __invert__(self) -> Words:
        """The negation."""
        return Words(("not", "(", *self.parts, ")"))

    def __str__(self) -> str:
        """The text."""
        return " ".join(part if isinstance(part, str) else _text(*part) for part in self.parts)


class _Word(Enum):
    """A row of the tables below: a word, and what reads its arguments."""

    def __init__(self, word: str, read: Callable[[_Reader], Any]) -> None:
        self.word, self.read = word, read

    def __str__(self) -> str:
        """The word."""
        return self.word

    def __repr__(self) -> str:
        """The name in Python."""
        return f"{type(self).__name__}.{self.name}"


def _text(word: _Word, arguments: Sequence[object]) -> str:
    shown = (
        duration_to_text(each.total_seconds()) if isinstance(each, timedelta) else str(each)
        for each in arguments
    )
    return " ".join((word.word, *shown))


class Do(_Word):
    """The actions; `Do.DROP` and `Do.DELAY("200ms")` begin a rule in Python.  A timedelta is a time, too."""

    DROP = (
        "drop",
        lambda words: action.Send("drop", lambda query: Reply(dropped=True), action.any_query),
    )
    DELAY = "delay", _Reader.delay
    RCODE = "rcode", _Reader.rcode
    # Not even the SOA record that negative caching needs.
    EMPTY = "empty", lambda words: action.Send("empty", lambda query: Reply(aa=True))
    NODATA = "nodata", lambda words: action.Deny("nodata", Rcode.NOERROR)
    NXDOMAIN = "nxdomain", lambda words: action.Deny("nxdomain", Rcode.NXDOMAIN)
    TRUNCATE = (
        "truncate",
        lambda words: action.truncate(words.number(*_RECORDS) if words.has_number() else 0),
    )
    TTL = "ttl", lambda words: action.set_ttl(words.number("a TTL", 0, _MAX_TTL))
    SHUFFLE = "shuffle", lambda words: action.shuffle()
    CUT = "cut", lambda words: action.cut(words.number(*_RECORDS))
    ENDPOINTS = (
        "endpoints",
        lambda words: action.endpoints(words.number("a number of endpoints", 0, 65535)),
    )
    ANSWER = "answer", _Reader.answer
    FREEZE = "freeze", lambda words: state.freeze()
    LAG = "lag", lambda words: state.lag(words.seconds(MAX_LIFETIME, low=0.001)[0])
    FLAP = "flap", lambda words: state.flap(words.seconds(MAX_LIFETIME, low=0.001)[0])
    WATCH = "watch", _Reader.watch
    REFUSE = "refuse", lambda words: action.ConnectionAction("refuse")
    HANG = "hang", lambda words: action.ConnectionAction("hang")
    SLOW = (
        "slow",
        lambda words: action.ConnectionAction(
            "slow", words.number("a number of octets a second", 1, MAX_COUNT)
        ),
    )
    RESET = (
        "reset",
        lambda words: action.ConnectionAction(
            "reset",
            words.number("a number of octets", 0, MAX_COUNT) if words.has_number() else None,
        ),
    )
    QUEUE_FULL = "queue-full", lambda words: action.QueueFull()
    RESTART = "restart", lambda words: action.Restart("restart")
    DIE = "die", _Reader.die

    def __call__(self, *arguments: object) -> Words:
        """The action with its arguments."""
        return Words((_text(self, arguments),))


class When(_Word):
    """The selectors; `When.TYPE("AAAA") & When.SHARE(0.5)` stands in a rule in Python."""

    NAME = "name", _Reader.name_is
    TYPE = "type", _Reader.type_is
    TRANSPORT = "transport", _Reader.transport
    CLIENT = "client", _Reader.client
    POD = "pod", _Reader.pod
    LABELS = "labels", _Reader.labels
    ASKED = "asked", _Reader.asked
    LISTENER = "listener", _Reader.listener
    FLOW = "flow", _Reader.flow
    NTH = "nth", lambda words: selector.Nth(words.number("a number", 1, MAX_COUNT))
    SHARE = "share", lambda words: selector.Share(words.decimal("a share such as 0.5,", 0, 1))
    AFTER = "after", lambda words: words.period("after")
    BEFORE = "before", lambda words: words.period("before")

    def __call__(self, *arguments: object) -> Words:
        """The selector with its arguments."""
        return Words(((self, arguments),))


ACTIONS: Final[Mapping[str, Callable[[_Reader], Action]]] = {each.word: each.read for each in Do}
SELECTORS: Final[Mapping[str, Callable[[_Reader], Selector]]] = {
    each.word: each.read for each in When
}
OPTIONS: Final[Mapping[str, tuple[str, Callable[[_Reader], object]]]] = {
    "seed": ("seed", lambda words: words.number("a seed", 0, MAX_SEED)),
    "times": ("times", lambda words: words.number("a number", 1, MAX_COUNT)),
    "for": ("lifetime", lambda words: words.seconds(MAX_LIFETIME, low=0.001)[0]),
    "named": ("name", _Reader.own_name),
}


def _rcode(word: str) -> int:
    found = rcode_from_text(word)
    if found == Rcode.NOERROR or found > 15:  # the values above need an OPT record
        raise ValueError
    return found
