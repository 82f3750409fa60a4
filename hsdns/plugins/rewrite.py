"""Rewrites queries and the corresponding replies.

Path: step 5, after `log` and `prometheus`, which see the client's query, and before `acl`, `cache` and all plugins that
answer, which see the rewritten one.  rewriting/ has the rules.
Source: CoreDNS 1.14.7 plugin/rewrite.
Rule 1: the question of a reply is always the client's.
Rule 2: rules are applied in file order until one without `continue` matches; changes to the reply are applied in
        reverse order.
Rule 3: the server block is not selected again for the rewritten name.
Cacheable: unless there is an `edns0` rule, because all others depend on the question alone; names_answered_first()
        returns all names whose negative replies they may change.

Its arguments, at setup; rewriting/option.py parses those after `edns0`:
Rule 1: every pattern except a regular expression becomes lower case and gets a final dot, as in CoreDNS: `prefix foo-`
        only matches names that begin with `foo-.`, which causes a warning.
Rule 2: nothing is ignored: an extra word is an error with its position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Self

from hsdns.chain import Next, Request, all_names
from hsdns.corefile.properties import Pattern, read_pattern
from hsdns.corefile.tree import CorefileError, Directive, Position, Token
from hsdns.plugin import Block, Plugin
from hsdns.rewriting.option import RewriteOption, read_option, reverted
from hsdns.rewriting.rule import (
    AliasRule,
    Draft,
    InvalidName,
    Matcher,
    OwnerRule,
    RcodeRule,
    ReplyRule,
    RewriteName,
    RewriteNumber,
    RewriteReply,
    Rule,
    TtlRule,
    ValueRule,
    exact,
    name_of,
    prefix,
    regex,
    rewrite,
    substring,
    suffix,
)
from hsdns.wire.edns import ECHOED
from hsdns.wire.iana import Rcode, class_from_text, rcode_from_text, type_from_text
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name


class Rewrite(Plugin):
    """Applies the rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.cacheable = all(rule.is_pure for rule in rules)
        options = [rule for rule in rules if isinstance(rule, RewriteOption)]
        self._has_options = bool(options)
        self._echoed = ECHOED | {rule.code for rule in options if rule.echoed}

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all `rewrite` of the block; each is a rule."""
        return cls(
            [
                read_rule(_words(directive), directive.name.position, block.warn)
                for directive in directives
            ]
        )

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return the names that any rule may match."""
        return all_names(rule.affected_names(zone) for rule in self.rules)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Rewrite the query, pass it on, and rewrite the reply."""
        query = self._with_echoes(request.query)
        undo: list[ReplyRule] = []
        stopped = False
        try:
            for rule in self.rules:
                step = rule.apply(query, request)
                query = self._with_echoes(step.query)
                if step.is_done:
                    undo += step.undo
                    if rule.stops:
                        stopped = True
                        break
            below = request if query is request.query else request.replace(query=query)
            reply = await next(below)
            if request.dependencies is not None and any(isinstance(rule, TtlRule) for rule in undo):
                # The range applies to each remaining TTL, which the answer table counts down by itself.
                request.dependencies.cached = None
            if not reply.written and (undo or stopped):
                # With an OPT record, as in CoreDNS: `nsid` adds to it, and `log` includes it in the size.
                reply = reply.replace(written=True, edns_options=_shown_options(query))
            if undo and reply.written and not reply.dropped:
                reply = await self._undo(below, reply, undo)
        except InvalidName as bad:
            reply = unwritten(Rcode.SERVFAIL, f"invalid name after rewrite: {bad.text}")
        if self._has_options and reply.edns is None and query.edns is not None:
            reply = reply.replace(edns=reverted(query.edns, tuple(undo)))
        return reply

    def _with_echoes(self, query: Query) -> Query:
        """Return the query with those options marked that the reply echoes."""
        edns = query.edns
        if edns is None or not self._has_options or edns.echoed == self._echoed:
            return query
        return query.replace(edns=replace(edns, echoed=self._echoed))

    async def _undo(self, below: Request, reply: Reply, undo: Sequence[ReplyRule]) -> Reply:
        draft = Draft(reply)
        steps = rewrite(draft, undo)
        found: Reply | None = None
        try:
            wanted = steps.send(None)
            while True:
                found = await self._lookup(below, wanted)
                wanted = steps.send(found)
        except StopIteration:
            pass
        done = draft.to_reply()
        if reply.following is None:
            return done
        return done.replace(following=_rewritten(reply.following, undo))

    async def _lookup(self, below: Request, qname: Name) -> Reply | None:
        """Resolve the new target of a CNAME through this server, with the client's EDNS."""
        found = await self._runtime.resolve(below.nested(qname, below.query.qtype))
        return None if found.dropped else found


def _shown_options(query: Query) -> tuple[tuple[int, bytes], ...] | None:
    """Return the options that a reply echoes; None if the query has no OPT record."""
    edns = query.edns
    if edns is None:
        return None
    return tuple(option for option in edns.options if option[0] in edns.echoed)


def _rewritten(
    following: Iterator[tuple[RR, ...]], undo: Sequence[ReplyRule]
) -> Iterator[tuple[RR, ...]]:
    """Rewrite the later messages of a zone transfer; no CNAME target is resolved for them."""
    for answer in following:
        draft = Draft(Reply(answer=answer))
        for _ in rewrite(draft, undo):
            pass
        yield draft.to_reply().answer


def _words(directive: Directive) -> list[Token]:
    """Return the words of a rule: those of the line and, if it has at most one, those of the body."""
    words = list(directive.args)
    if len(words) < 2:
        for line in directive.lines:
            words += [line.name, *line.without_brace.args]
    elif directive.body is not None:
        extra = directive.lines[0].name if directive.lines else directive.name
        raise extra.error(
            "a rule of rewrite is written on one line or in a body, not both; "
            + (f'found "{extra.text}" in the body' if directive.lines else "remove its braces")
        )
    return words


MAX_TTL: Final = 2**31 - 1  # RFC 2181 section 8; the upper end of an open range
MAX_NUMBER: Final = 2**32 - 1
MAX_RCODE: Final = 23
MATCHES: Final = ("exact", "prefix", "suffix", "substring", "regex")
_MATCH: Final = "[exact|prefix|suffix|substring|regex]"

Warn = Callable[[str], None]


def read_rule(words: Sequence[Token], position: Position, warn: Warn) -> Rule:
    """Parse `[continue|stop] FIELD ...`; raise CorefileError, at `position` if words are missing."""
    left = list(words)
    stops = True
    if left and left[0].text.lower() in ("continue", "stop"):
        stops = left.pop(0).text.lower() == "stop"
    if not left:
        raise position.error(f"rewrite needs a field: {', '.join(_READERS)}")
    field = left.pop(0)
    if field.text.lower() == "answer":
        raise field.error('"answer" must follow a name rule: name exact FROM TO answer auto')
    return _READERS[field.one_of(_READERS, ignore_case=True)](field, left, stops, warn)


def _read_name(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    if len(words) < 2:
        raise _wrong(field, f"{_MATCH} FROM TO [answer ...]", words)
    kind = "exact" if len(words) == 2 else words.pop(0).one_of(MATCHES, ignore_case=True)
    old, new, options = words[0], words[1], words[2:]
    automatic, undo = _read_answer(options, warn)
    to = absolute(new.text)
    if kind == "regex":
        pattern = read_pattern(old)
        _check_groups(pattern, new, warn)
        matcher = regex(pattern)
    else:
        matcher = _matcher(kind, old, warn)
    if kind == "suffix" and automatic:
        # Instead of restoring this one name: other names with the same ending are restored too.
        back, text = suffix(to), absolute(old.text)
        undo = (OwnerRule(back, text), ValueRule(back, text), *undo)
        automatic = False
    return RewriteName(matcher, to, automatic or kind == "exact", undo, stops)


def _read_answer(words: list[Token], warn: Warn) -> tuple[bool, tuple[ReplyRule, ...]]:
    """Parse `answer auto|name FROM TO|value FROM TO`, also several; the word `answer` need not be repeated."""
    automatic: Token | None = None
    named = False
    undo: list[ReplyRule] = []
    left = list(words)
    if left and left[0].text != "answer":
        raise left[0].error(f'only "answer" may follow FROM and TO, found "{left[0].text}"')
    while left:
        word = left.pop(0)
        if word.text == "answer":
            if not left:
                raise word.error('"answer" needs "auto", "name FROM TO" or "value FROM TO"')
            word = left.pop(0)
        if word.one_of(("auto", "name", "value")) == "auto":
            automatic = word
            continue
        if len(left) < 2:
            raise word.error(f'"answer {word.text}" takes FROM and TO')
        old, new = left.pop(0), left.pop(0)
        pattern = read_pattern(old)
        _check_groups(pattern, new, warn)
        named = named or word.text == "name"
        kind = OwnerRule if word.text == "name" else ValueRule
        undo.append(kind(regex(pattern), absolute(new.text)))
    if automatic is not None and named:
        raise automatic.error(
            '"answer auto" and "answer name" cannot be combined; remove one of them'
        )
    return automatic is not None, tuple(undo)


def _read_number(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    if len(words) != 2:
        raise _wrong(field, "FROM TO", words)
    name = field.text.lower()
    read = type_from_text if name == "type" else class_from_text
    return RewriteNumber(f"q{name}", words[0].parse(read), words[1].parse(read), stops)


def _read_ttl(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    kind = _pop_kind(field, words, "FROM SECONDS|MIN-MAX")
    matcher = _matcher(kind, words[0], warn)
    return RewriteReply(TtlRule(*_ttl_range(words[1])), matcher, stops)


def _ttl_range(token: Token) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{0,10})(-?)([0-9]{0,10})", token.text)
    if found is None or not (found[1] or found[3]):
        raise token.error(f'"{token.text}" is not a TTL; write 30, 30-300, 30- or -300 (seconds)')
    low = int(found[1] or 0)
    high = (int(found[3]) if found[3] else MAX_TTL) if found[2] else low
    if max(low, high) > MAX_NUMBER or low > high:
        raise token.error(f'"{token.text}" is not a range of TTLs; write the lower one first')
    return low, high


def _read_cname(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    kind = _pop_kind(field, words, "FROM TO")
    # Patterns other than exact get no final dot, but become lower case.
    old, new = (token._replace(text=token.text.lower()) for token in words)
    to = new.text
    if kind == "exact":
        matcher, to = exact(absolute(old.text)), absolute(to)
    elif kind == "regex":
        pattern = read_pattern(old)
        _warn_of_groups(pattern, new, warn)
        matcher = regex(pattern)
    else:
        matcher = _PLAIN[kind](old.text)
    return RewriteReply(AliasRule(matcher, to), stops=stops)


def _read_rcode(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    kind = _pop_kind(field, words, "NAME FROM TO")
    rcodes = RcodeRule(_rcode(words[1]), _rcode(words[2]))
    return RewriteReply(rcodes, _matcher(kind, words[0], warn), stops)


def _rcode(token: Token) -> int:
    word = token.text.upper()
    if re.fullmatch("[0-9]{1,9}", word) and int(word) <= MAX_RCODE:
        return int(word)
    return 16 if word == "BADSIG" else token.parse(rcode_from_text)


def _read_edns0(field: Token, words: list[Token], stops: bool, warn: Warn) -> Rule:
    if len(words) < 2:
        raise _wrong(field, "local|nsid|subnet set|append|replace|unset ...", words)
    return read_option(words, stops)


def _matcher(kind: str, token: Token, warn: Warn) -> Matcher:
    """Make a matcher for qnames."""
    if kind == "regex":
        return regex(read_pattern(token))
    text = absolute(token.text)
    if kind == "exact":
        if name_of(text) is None:
            warn(
                f'{token.position}: "{token.text}" is not a domain name, so the rule never matches'
            )
        return exact(text)
    if text != token.text.lower() and (
        kind == "prefix" or (kind == "substring" and "." not in token.text)
    ):
        warn(
            f'{token.position}: {kind} "{token.text}" is read as "{text}", as in CoreDNS, so it matches at the end of '
            "a label only; use regex for other places"
        )
    return _PLAIN[kind](text)


_PLAIN: Final = {"prefix": prefix, "suffix": suffix, "substring": substring}


def _pop_kind(field: Token, words: list[Token], form: str) -> str:
    """Remove the kind of match before the words of `form`, "exact" if it is left out; raise CorefileError."""
    missing = len(form.split()) - len(words)
    if missing not in (0, -1):
        raise _wrong(field, f"{_MATCH} {form}", words)
    return words.pop(0).one_of(MATCHES, ignore_case=True) if missing else "exact"


def _check_groups(pattern: Pattern, to: Token, warn: Warn) -> None:
    """Raise CorefileError if TO uses more different groups than the pattern has, which is what CoreDNS counts."""
    used = {found for found in re.findall(r"\{([0-9]{1,3})\}", to.text) if found == str(int(found))}
    used = {found for found in used if int(found) <= 100}  # the limit of CoreDNS
    if len(used) > pattern.groups:
        raise to.error(
            f'"{to.text}" uses {len(used)} groups, but "{pattern.pattern}" has {pattern.groups}'
        )
    _warn_of_groups(pattern, to, warn)


def _warn_of_groups(pattern: Pattern, to: Token, warn: Warn) -> None:
    for found in re.findall(r"\{([0-9]{1,3})\}", to.text):
        if int(found) > pattern.groups:
            warn(
                f'{to.position}: "{{{found}}}" in "{to.text}" is not replaced: "{pattern.pattern}" has '
                f"{pattern.groups} groups"
            )


def absolute(text: str) -> str:
    """Return a name in lower case with its final dot."""
    text = text.lower()
    if not text.endswith("."):
        return text + "."
    before = text[:-1]
    escapes = len(before) - len(before.rstrip("\\"))
    return text + "." if escapes % 2 else text  # an escaped dot is not the end


def _wrong(field: Token, form: str, words: Sequence[Token]) -> CorefileError:
    return field.error(f'"{field.text}" of rewrite takes {form}, found {len(words)} arguments')


_READERS: Final[dict[str, Callable[[Token, list[Token], bool, Warn], Rule]]] = {
    "name": _read_name,
    "type": _read_number,
    "class": _read_number,
    "edns0": _read_edns0,
    "ttl": _read_ttl,
    "cname": _read_cname,
    "rcode": _read_rcode,
}
