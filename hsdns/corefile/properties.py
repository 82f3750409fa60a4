"""Properties of plugins: a declarative table of Property for each plugin, and the readers of their arguments.

Path: a plugin's setup calls read_properties() with its PROPERTIES; a test compares the table with the plugin's page.
Rule 1: the table defines a property completely: its reader, its default, how often it may occur.
Rule 2: nothing is ignored: an unknown property is an error, as is one of CoreDNS that hsdns lacks (NOT_YET).

What CoreDNS once had, and what only other builds have: the directives and properties that people still write:
Rule: what the words were is told before a similar word is proposed.
Source: the release notes of CoreDNS (notes/*.md) and the history of plugin.cfg and of each plugin's setup.go; the
external plugins of coredns.io/explugins, and of builds for OpenShift, vCluster, k8gb and others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Generic, Literal, TypeVar, cast

from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token, did_you_mean
from hsdns.wire import counted

# Regular expressions in a Corefile: RE2, with Go's syntax and matching in linear time.
#
# Source: RE2, which Go's regexp package follows (github.com/google/re2/wiki/Syntax).
# Rule 1: no pattern of a Corefile is compiled with Python's `re`, which may take exponential time.
# Rule 2: re2 is imported with the first pattern: it takes 2.5 MB, and the usual Corefiles have no pattern.


MAX_PATTERN_LEN: Final = 10_000  # characters; CoreDNS has the same limit in every plugin


# Those of re2 have what is used of these.
Match = re.Match[str]
Pattern = re.Pattern[str]


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raise ValueError with the reason."""
    if len(text) > MAX_PATTERN_LEN:
        raise ValueError(
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_LEN} are allowed"
        )
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - google-re2 has no types; Rule 2

    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    try:
        return cast(Pattern, re2.compile(text, options))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f'"{text}" is not a regular expression: {words}') from None


def read_pattern(token: Token) -> Pattern:
    """Compile a word as a pattern; raise CorefileError."""
    return token.parse(compile_pattern)


T = TypeVar("T")
Reader = Callable[[Line], T]


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """The definition of one property.

    `syntax` describes its arguments in the docs.  `repeat`: "once" makes a second occurrence an error, with "last" the
    last one counts (as for most of CoreDNS), "collect" gives a list of all values, "extend" one of all their elements.

    A `}` after the arguments on the same line is one more of them, unless CoreDNS reads only the first `reads` words
    of the line.  It ignores the others, or where it `stops` there, the `}` closes the body.
    """

    read: Reader[T]
    default: T | None = None
    syntax: str = ""
    repeat: Literal["once", "last", "collect", "extend"] = "last"
    reads: int | None = None
    stops: bool = False

    def line(self, line: Line) -> Line:
        """What CoreDNS reads of a line: without its `}`, where that is not an argument."""
        return (
            line.without_brace if self.reads is not None and len(line.args) > self.reads else line
        )

    def closes(self, line: Line) -> bool:
        """Whether the body is closed after a line that is the last one."""
        return line.brace is None or (self.stops and self.line(line).brace is None)


_ANY: Final[Property[Any]] = Property(
    lambda line: line
)  # of a plugin that reads its lines by itself


def read_properties(
    directives: Sequence[Directive],
    table: Mapping[str, Property[Any]],
    *,
    not_yet: Collection[str] = (),
) -> dict[str, Any]:
    """Read the properties of a plugin's directives; the result has a value for every property of the table."""
    values: dict[str, Any] = {
        name: [] if known.repeat in ("collect", "extend") else known.default
        for name, known in table.items()
    }
    seen: set[str] = set()
    for directive in directives:
        plugin = directive.name.text
        for line in directive.lines:
            word = line.name.text
            known = table.get(word)
            if known is None:
                if word in not_yet:
                    raise line.error(
                        f'property "{word}" of {plugin} exists in CoreDNS but not in hsdns yet; remove the line'
                    )
                raise line.error(about_property(word, plugin, table))
            if known.repeat == "once" and word in seen:
                raise line.error(f'property "{word}" of {plugin} may be given only once')
            seen.add(word)
            value = _read(known, line)
            if known.repeat == "collect":
                values[word].append(value)
            elif known.repeat == "extend":
                values[word] += value
            else:
                values[word] = value
    return values


def only_once(directives: Sequence[Directive]) -> Directive:
    """Return a plugin's only directive in a server block; raise CorefileError if there are more."""
    if len(directives) > 1:
        second = directives[1].name
        raise second.error(
            f'"{second.text}" may occur only once in a server block; merge it with the first'
        )
    return directives[0]


def one_of(
    directives: Sequence[Directive], warn: Callable[[str], None], *, last: bool = False
) -> Directive:
    """Return the directive that counts if CoreDNS allows several: the first or the last; warn about the others."""
    counts = directives[-1 if last else 0]
    for directive in directives:
        if directive is not counts:
            warn(
                f'{directive.name.position}: this "{directive.name.text}" has no effect, the one at '
                f"{counts.name.position} counts, as in CoreDNS 1.14.7; remove one"
            )
    return counts


def _read(known: Property[Any], line: Line) -> Any:
    """The value of a line; raise CorefileError, about its `}` if that is the reason."""
    try:
        return known.read(known.line(line))
    except CorefileError:
        if line.brace is None:
            raise
        known.read(line.without_brace)
        raise line.brace.error(
            f'CoreDNS takes this "}}" for an argument of "{line.name.text}"; put it on its own line'
        ) from None


def check_closed(directives: Sequence[Directive], table: Mapping[str, Property[Any]]) -> None:
    """Raise CorefileError where CoreDNS reads a directive as a property of the one before, whose body it left open."""
    for before, directive in pairwise(directives):
        last = before.lines[-1:]
        if last and not table.get(last[0].name.text, _ANY).closes(last[0]):
            raise directive.name.error(
                f'CoreDNS reads this "{directive.name.text}" as a property of the one before, since the "}}" at '
                f"{last[0].args[-1].position} does not close its body; put that on its own line"
            )


def no_arguments(directive: Directive) -> None:
    """Raise CorefileError if a directive has arguments."""
    if directive.args:
        extra = directive.args[0]
        raise extra.error(f'"{directive.name.text}" takes no argument, found "{extra.text}"')


def no_body(directive: Directive, *, may_be_empty: bool = False) -> None:
    """Raise CorefileError if a directive has properties, or braces; CoreDNS ignores empty ones of some plugins."""
    if directive.lines:
        extra = directive.lines[0].name
        raise extra.error(f'"{directive.name.text}" has no properties, found "{extra.text}"')
    if directive.body is not None and not may_be_empty:
        raise directive.name.error(f'"{directive.name.text}" has no properties; remove its braces')


# Readers: each takes the whole line, so that errors can name the property and the position of the word.


def flag(line: Line) -> bool:
    """Read a property without arguments; its presence means True."""
    _count(line, 0, 0)
    return True


def one(read: Callable[[Token], T]) -> Reader[T]:
    """Read exactly one argument."""

    def reader(line: Line) -> T:
        _count(line, 1, 1)
        return read(line.args[0])

    return reader


def first(read: Callable[[Token], T], syntax: str, default: T | None = None) -> Property[T]:
    """Define a property of which CoreDNS reads one argument, and nothing after it."""
    return Property(one(read), default, syntax, reads=1, stops=True)


def optional(read: Callable[[Token], T], default: T) -> Reader[T]:
    """Read one argument or none."""

    def reader(line: Line) -> T:
        _count(line, 0, 1)
        return read(line.args[0]) if line.args else default

    return reader


def many(
    read: Callable[[Token], T], at_least: int = 1, at_most: int | None = None
) -> Reader[tuple[T, ...]]:
    """Read several arguments of one kind."""

    def reader(line: Line) -> tuple[T, ...]:
        _count(line, at_least, at_most)
        return tuple(read(token) for token in line.args)

    return reader


def words(
    make: Callable[..., T],
    *reads: Callable[[Token], Any],
    syntax: str,
    least: int = 1,
    default: T | None = None,
) -> Property[T]:
    """Define a property whose arguments are of different kinds, and all after the `least` ones optional, for `make`."""

    def reader(line: Line) -> T:
        if not least <= len(line.args) <= len(reads):
            where = line.args[len(reads)] if len(line.args) > len(reads) else line.name
            raise where.error(
                f'property "{line.name.text}" takes {syntax}, found {counted(len(line.args), "argument")}'
            )
        return make(*(read(token) for read, token in zip(reads, line.args, strict=False)))

    return Property(reader, default, syntax)


def text(token: Token) -> str:
    """Read a word unchanged."""
    return token.text


def integer(low: int, high: int | None = None) -> Callable[[Token], int]:
    """Read an integer from `low` to `high`, both included."""

    def read(token: Token) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", token.text):
            raise token.error(f'"{token.text}" is not a whole number')
        value = int(token.text)
        _check_range(token, value, str(value), low, high)
        return value

    return read


def number(low: int, high: int | None = None) -> Callable[[Token], float]:
    """Read a decimal number from `low` to `high`, both included."""

    def read(token: Token) -> float:
        # float() would also accept "1_0", "nan" and non-ASCII digits.
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", token.text):
            raise token.error(f'"{token.text}" is not a number')
        value = float(token.text)
        _check_range(token, value, token.text, low, high)
        return value

    return read


def choice(*words: str) -> Callable[[Token], str]:
    """Read one of the given words."""
    return lambda token: token.one_of(words)


_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def duration(low: float = 0.0, high: float | None = None) -> Callable[[Token], float]:
    """Read a Go duration (`1h2m3.5s`, `300ms`, `0`), in seconds, within bounds in seconds."""

    def read(token: Token) -> float:
        value = parse_duration(token.text)
        if value is None:
            raise token.error(
                f'"{token.text}" is not a duration; write a number and a unit such as "5s"'
            )
        _check_range(token, value, token.text, low, high, "{:g}s")
        return value

    return read


def parse_duration(word: str) -> float | None:
    """Parse a Go duration into seconds; return None if it is not one."""
    sign, digits = (-1.0, word[1:]) if word[:1] == "-" else (1.0, word.removeprefix("+"))
    if digits == "0":
        return 0.0
    at, total = 0, 0.0
    while at < len(digits):
        match = _DURATION.match(digits, at)
        if match is None:
            return None
        total += float(match[1]) * _UNITS[match[2]]
        at = match.end()
    return sign * total if digits else None


def duration_to_text(seconds: float) -> str:
    """Format seconds as Go does (`1h0m0s`, `1.5s`, `300ms`); the inverse of parse_duration()."""
    nanoseconds = round(abs(seconds) * 1e9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1000), ("ms", 1_000_000)):
        if nanoseconds < size * 1000:
            return f"{sign}{_decimal(nanoseconds, size)}{unit}"
    minutes, nanoseconds = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    front = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{front}{_decimal(nanoseconds, 10**9)}s"


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _check_range(
    token: Token, value: float, shown: str, low: float, high: float | None, form: str = "{}"
) -> None:
    if not low <= value < float("inf") or (high is not None and value > high):
        least = form.format(low)
        wanted = f"{least} or more" if high is None else f"{least} to {form.format(high)}"
        raise token.error(f"{shown} is out of range, allowed is {wanted}")


def _count(line: Line, at_least: int, at_most: int | None) -> None:
    found = len(line.args)
    if found < at_least or (at_most is not None and found > at_most):
        if at_most is None:
            wanted = f"at least {_arguments(at_least)}"
        elif at_least == at_most:
            wanted = _arguments(at_least)
        else:
            wanted = f"{at_least} to {_arguments(at_most)}"
        where: Position = (
            line.args[at_most].position
            if at_most is not None and found > at_most
            else line.name.position
        )
        raise where.error(f'property "{line.name.text}" takes {wanted}, found {found}')


def _arguments(count: int) -> str:
    return "no argument" if count == 0 else counted(count, "argument")


_TRANSFER: Final = ("1.8.0", "write the plugin transfer beside it, with its addresses after to")
_NO_UPSTREAM: Final = "remove it: names outside are resolved by the server itself"
# Directives: the version that no longer has it, and what to write.
_DIRECTIVES: Final = {
    "federation": ("1.7.0", "remove it: Kubernetes has no federation of that kind any more"),
    "httpproxy": ("1.0.0", "write forward"),
    "proxy": ("1.5.0", "write forward"),
    "reverse": ("1.2.0", "write template"),
    "shutdown": ("1.1.0", "remove it"),
    "startup": ("1.1.0", "remove it"),
}
# Properties by plugin, in the same way.
_PROPERTIES: Final = {
    "auto": {"no_reload": ("1.5.0", "write reload 0"), "transfer": _TRANSFER},
    "file": {"no_reload": ("1.5.0", "write reload 0"), "transfer": _TRANSFER},
    "header": {
        "clear": ("1.12.4", "write response clear"),
        "set": ("1.12.4", "write response set"),
    },
    "kubernetes": {
        "autopath": ("1.0.0", "write the plugin autopath @kubernetes beside it"),
        "cidrs": ("1.0.0", "write the networks among the zones of kubernetes"),
        "federation": ("1.0.0", "remove it"),
        "resyncperiod": ("1.7.0", "remove it: changes are watched"),
        "transfer": _TRANSFER,
        "upstream": ("1.7.0", _NO_UPSTREAM),
    },
    "prometheus": {"address": ("1.0.0", "write the address on the line of prometheus")},
    "secondary": {"upstream": ("1.8.0", _NO_UPSTREAM)},
}
# Properties of the plugin proxy, which people keep in forward.
_OF_PROXY: Final = {
    "fail_timeout": "remove it: health_check sets how often an upstream is probed",
    "protocol": 'write force_tcp or prefer_udp, or "tls://ADDRESS" as the upstream',
    "spray": "remove it: without a healthy upstream, queries go to any of them",
    "without": "remove it",
}
# Plugins that became a part of another one.
_MOVED: Final = {
    "multicluster": "is a property of kubernetes since CoreDNS 1.12.2: write its zone among those of kubernetes, and "
    "multicluster with this zone in the braces of kubernetes",
}
EXTERNAL: Final = frozenset(
    "acme ads alias alternate amazondns autoipv6ptr blocker blocklist bogus clickhouse consul consul_catalog demo "
    "dnsimple dnsredir docker dockerdiscovery dso dump dynapi ebpf ens enum example externaldns fallback fanout "
    "filter finalize firewall flatten gathersrv git gravwell gslb idetcd ipecho ipin ipset json k8s_cache k8s_crd "
    "k8s_dns_chaos k8s_event k8s_gateway keydb kubeforward kubenodes kubernetai lighthouse mdns meship meshname "
    "mysql mysql_extend nacos netbox netboxdns nodecache ocp_dnsnameresolver omada opa pdsql pocketbase policy "
    "rebind records recursor redis redis_cache redisc responsefilter rpz rrl ruledforward sinkhole split "
    "tailscale themis tlsplus umbrella unbound unifi vcluster warnlist wasm wgsd".split()
)


def about_directive(word: str) -> str:
    """What is known of a directive that CoreDNS does not have, "" if nothing is."""
    if word in _DIRECTIVES:
        version, instead = _DIRECTIVES[word]
        return f"{word} was removed in CoreDNS {version}; {instead}"
    if word in _MOVED:
        return f"{word} {_MOVED[word]}"
    return f"{word} is an external plugin; not in CoreDNS or hsdns" if word in EXTERNAL else ""


def about_property(word: str, plugin: str, known: Iterable[str]) -> str:
    """What is known of a property that a plugin does not have; `known` are those that it has."""
    removed: Mapping[str, tuple[str, str]] = _PROPERTIES.get(plugin, {})
    if word in removed:
        version, instead = removed[word]
        return f"{word} of {plugin} was removed in CoreDNS {version}; {instead}"
    if plugin == "forward" and word in _OF_PROXY:
        return (
            f"{word} was a property of proxy, and forward has none of that name; {_OF_PROXY[word]}"
        )
    return f'unknown property "{word}" of {plugin}{did_you_mean(word, known)}'
