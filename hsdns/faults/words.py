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
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, TypeVar

from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.faults.action import (
    MAX_DELAY,
    Action,
    AnswerAddress,
    AnswerName,
    Cut,
    Delay,
    Deny,
    Drop,
    Empty,
    Endpoints,
    Hang,
    QueueFull,
    Refuse,
    Reset,
    Restart,
    SetRcode,
    SetTtl,
    Shuffle,
    Slow,
    Truncate,
)
from hsdns.faults.rules import MAX_SEED, RuleError, Wanted
from hsdns.faults.selector import (
    TRANSPORTS,
    And,
    AskedIs,
    ClientIs,
    FirstOfFlow,
    FlowSince,
    ListenerIs,
    NameIs,
    Not,
    Nth,
    Or,
    Period,
    PodIs,
    SecondOfFlow,
    Selector,
    Share,
    TransportIs,
    TypeIs,
)
from hsdns.faults.state import OUTCOMES, RESOURCES, Flap, Freeze, Lag, WatchAway, WatchForbidden
from hsdns.wire.iana import Rcode, rcode_from_text, rcode_to_text, type_from_text
from hsdns.wire.name import Name

T = TypeVar("T")
MAX_WORDS: Final = 200
MAX_LIFETIME: Final = 7 * 24 * 3600.0  # seconds
MAX_COUNT: Final = 1_000_000
_MAX_TTL: Final = 2**31 - 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PARENTHESIS: Final = re.compile(r"(\\.)|[()]")  # but not an escaped one, which a name may contain
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")
_FLOWS: Final = ("first", "second", "existing", "new")
_RCODES: Final = tuple(rcode_to_text(number) for number in range(1, 11))
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
        action = self._known(ACTIONS, "action")(self)
        selector: Selector = And(())
        if self._next and self._next not in OPTIONS:
            selector = self._any_of()
        if why := action.misfit(selector):
            raise RuleError(why)
        options = self._options()
        return Wanted(action, selector, **options)  # type: ignore[arg-type]  # OPTIONS has their types

    # selectors

    def _any_of(self) -> Selector:
        found = [self._all_of()]
        while self._next == "or":
            self._at += 1
            found.append(self._all_of())
        return found[0] if len(found) == 1 else Or(found)

    def _all_of(self) -> Selector:
        found = [self._single()]
        while not self._ends_here:
            if self._next == "and":
                self._at += 1
            found.append(self._single())
        return found[0] if len(found) == 1 else And(found)

    def _single(self) -> Selector:
        if self._ends_here:
            raise self._error(
                f"a selector is missing {self._place()}; the selectors are {', '.join(SELECTORS)}"
            )
        if self._next == "not":
            self._at += 1
            return Not(self._single())
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
            hint = did_you_mean(word, (*known, *others)) or f"; there are {', '.join(known)}"
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

    def number(self, what: str, low: int, high: int) -> int:
        """Take a whole number."""

        def parse(word: str) -> int:
            if not _NUMBER.fullmatch(word) or not low <= int(word) <= high:
                raise ValueError
            return int(word)

        return self.parsed(f"{what} from {low} to {high}", parse)

    def decimal(self, what: str, low: float, high: float) -> float:
        """Take a number above `low` and at most `high`."""

        def parse(word: str) -> float:
            if not _DECIMAL.fullmatch(word) or not low < float(word) <= high:
                raise ValueError
            return float(word)

        return self.parsed(f"{what} above {low:g}, up to {high:g}", parse)

    def seconds(self, high: float, low: float = 0.0) -> float:
        """Take a duration."""

        def parse(word: str) -> float:
            found = parse_duration(word)
            if found is None or not low <= found <= high or math.isnan(found):
                raise ValueError
            return found

        least, most = duration_to_text(low), duration_to_text(high)
        return self.parsed(f"a duration such as 200ms or 5s, from {least} to {most}", parse)

    def name(self) -> Name:
        """Take a domain name."""
        return self.parsed("a domain name", Name.from_text)

    # words with several kinds of arguments

    def delay(self) -> Action:
        """Take the arguments of `delay`."""
        distribution = self._next if self._next in ("normal", "pareto") else ""
        if distribution:
            self._at += 1
        first = self.seconds(MAX_DELAY)
        shown = duration_to_text(first)
        if distribution == "normal":
            deviation = self.seconds(MAX_DELAY)
            text = f"delay normal {shown} {duration_to_text(deviation)}"
            return Delay(text, distribution, first, deviation)
        if distribution == "pareto":
            shape = self.decimal("a shape", 0, 100)
            return Delay(f"delay pareto {shown} {shape:.10g}", distribution, first, shape)
        return Delay(f"delay {shown}", distribution, first)

    def die(self) -> Action:
        """Take the arguments of `die`."""
        dead = self.seconds(MAX_LIFETIME)
        text, pending = f"die {duration_to_text(dead)}", None
        if self._next == "pending":
            self._at += 1
            pending = self.number("a number of queries", 1, MAX_COUNT)
            text += f" pending {pending}"
        return Restart(text, dead, pending)

    def answer(self) -> Action:
        """Take the argument of `answer`."""
        word = self._next
        try:
            action: Action = AnswerAddress(str(ip_address(word)))
        except ValueError:
            return AnswerName(self.name())
        self._at += 1
        return action

    def pod(self) -> Selector:
        """Take the argument of `pod`."""

        def parse(word: str) -> Selector:
            namespace, slash, name = word.partition("/")
            if not (namespace and slash and name) or "*" in namespace:
                raise ValueError
            return PodIs(namespace, name)

        return self.parsed("NAMESPACE/NAME of a pod, or NAMESPACE/*", parse)

    def name_is(self) -> Selector:
        """Take the arguments of `name`."""
        below = self._next == "below"
        self._at += below
        return NameIs(self.name(), below=below)

    def transport(self) -> Selector:
        """Take the argument of `transport`."""
        return TransportIs(self.one_of("a transport", TRANSPORTS))

    def listener(self) -> Selector:
        """Take the argument of `listener`."""
        return ListenerIs(self.one_of("a listener of this server", self._servers))

    def flow(self) -> Selector:
        """Take the arguments of `flow`."""
        word = self.one_of("a kind of flow", _FLOWS)
        if word == "first":
            return FirstOfFlow()
        seconds = self.seconds(MAX_LIFETIME)
        shown = duration_to_text(seconds)
        if word == "second":
            return SecondOfFlow(seconds, shown)
        return FlowSince(word, seconds, shown)

    def period(self, word: str) -> Selector:
        """Take the argument of `after` and `before`."""
        seconds = self.seconds(MAX_LIFETIME)
        return Period(word, seconds, duration_to_text(seconds))

    def one_of(self, what: str, known: Sequence[str]) -> str:
        """Take one of some words."""
        word = self.word(what)
        if word not in known:
            hint = did_you_mean(word, known) or f"; there are {', '.join(known)}"
            raise self._error(f'"{word}" is not {what}{hint}', back=1)
        return word

    def watch(self) -> Action:
        """Take the arguments of `watch`."""
        if self.one_of("what becomes of a watch", OUTCOMES) == "away":
            return WatchAway()
        return WatchForbidden(self.one_of("a resource that is watched", RESOURCES))

    def own_name(self) -> str:
        """Take the name of a rule."""

        def parse(word: str) -> str:
            if not _NAME.fullmatch(word):
                raise ValueError
            return word

        return self.parsed("a name of at most 63 letters, digits, dots and dashes", parse)


ACTIONS: Final[Mapping[str, Callable[[_Reader], Action]]] = {
    "drop": lambda words: Drop(),
    "delay": _Reader.delay,
    "rcode": lambda words: SetRcode(words.parsed("an rcode of a failure", _rcode, _RCODES)),
    "empty": lambda words: Empty(),
    "nodata": lambda words: Deny(Rcode.NOERROR),
    "nxdomain": lambda words: Deny(Rcode.NXDOMAIN),
    "truncate": lambda words: Truncate(
        words.number("a number of records", 0, 65535) if words.has_number() else 0
    ),
    "ttl": lambda words: SetTtl(words.number("a TTL", 0, _MAX_TTL)),
    "shuffle": lambda words: Shuffle(),
    "cut": lambda words: Cut(words.number("a number of records", 0, 65535)),
    "endpoints": lambda words: Endpoints(words.number("a number of endpoints", 0, 65535)),
    "answer": _Reader.answer,
    "freeze": lambda words: Freeze(),
    "lag": lambda words: Lag(words.seconds(MAX_LIFETIME, low=0.001)),
    "flap": lambda words: Flap(words.seconds(MAX_LIFETIME, low=0.001)),
    "watch": _Reader.watch,
    "refuse": lambda words: Refuse(),
    "hang": lambda words: Hang(),
    "slow": lambda words: Slow(words.number("a number of octets a second", 1, MAX_COUNT)),
    "reset": lambda words: Reset(
        words.number("a number of octets", 0, MAX_COUNT) if words.has_number() else None
    ),
    "queue-full": lambda words: QueueFull(),
    "restart": lambda words: Restart("restart"),
    "die": _Reader.die,
}
SELECTORS: Final[Mapping[str, Callable[[_Reader], Selector]]] = {
    "name": _Reader.name_is,
    "type": lambda words: TypeIs(words.parsed("a record type", type_from_text, _TYPES)),
    "transport": _Reader.transport,
    "client": lambda words: ClientIs(words.parsed("an address or a network", _network)),
    "pod": _Reader.pod,
    "asked": lambda words: AskedIs(words.parsed("an IP address", lambda word: str(ip_address(word)))),
    "listener": _Reader.listener,
    "flow": _Reader.flow,
    "nth": lambda words: Nth(words.number("a number", 1, MAX_COUNT)),
    "share": lambda words: Share(words.decimal("a share such as 0.5,", 0, 1)),
    "after": lambda words: words.period("after"),
    "before": lambda words: words.period("before"),
}  # fmt: skip
OPTIONS: Final[Mapping[str, tuple[str, Callable[[_Reader], object]]]] = {
    "seed": ("seed", lambda words: words.number("a seed", 0, MAX_SEED)),
    "times": ("times", lambda words: words.number("a number", 1, MAX_COUNT)),
    "for": ("lifetime", lambda words: words.seconds(MAX_LIFETIME, low=0.001)),
    "named": ("name", _Reader.own_name),
}


def _network(word: str) -> IPv4Network | IPv6Network:
    return ip_network(word, strict=False)  # 10.1.2.3/8 means 10.0.0.0/8, and is shown as that


def _rcode(word: str) -> int:
    found = rcode_from_text(word)
    if found == Rcode.NOERROR or found > 15:  # the values above need an OPT record
        raise ValueError
    return found
