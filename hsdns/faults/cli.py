"""`hsdns fault add|import|list|watch|remove|clear`: rules that make a running server misbehave deliberately.

Path: argv -> here -> running_server.py -> /v1/faults of the server; fault_run.py plays a scenario.
Rule 1: the server parses a rule, because it knows its zones, listeners and pods; its sentence is shown.
Rule 2: with -dry-run the server also tries the rule, on the queries that it has kept; this module summarizes the
        results.
Rule 3: the exit status is 2 for bad input, a rule that is refused, or no server.

`hsdns fault scenarios|matrix|run`: lists known failures, or plays them in simulated or real time:
Rule: the exit status is 1 if a rule has hit no query, since that shows nothing; 2 for bad input, or if no server
      could be reached.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from hsdns.cli.command import ANY, OUTPUT, FlagError, columns, complain, flag, no_command, say
from hsdns.cli.running_server import ServerCommand
from hsdns.colours import YELLOW
from hsdns.corefile.properties import duration_to_text
from hsdns.wire import is_address
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.fault_scenarios.memory_server import OtherServer

SCENARIO_WORDS: Final = ("run", "scenarios", "matrix")
ONLY_WITH: Final = {
    "name": ("run", "matrix"),
    "own": ("run",),
    "ask": ("run",),
    "program": ("matrix",),
    "through": ("matrix",),
    "server": ("matrix",),
    "p": ("matrix",),
    "control": ("add", "import", "list", "watch", "remove", "clear", "run"),
}
NAME: Final = "kubernetes.default.svc.cluster.local."  # a name that every cluster has
WORDS: Final = ("add", "import", "list", "watch", "remove", "clear", *SCENARIO_WORDS)
PAGE: Final = "/v1/faults"
STATES: Final = {"active": YELLOW}
LAST: Final = 1000  # queries on which a rule is tried
MOST: Final = 20  # lines shown for them
DRY_RUN: Final = "dry-run"
USAGE: Final = """hsdns fault add RULE [FLAG...]     add a rule, for 10 minutes unless it has "for"
       hsdns fault import FILE [FLAG...]  add the rules of DNSChaos objects (FILE or -)
       hsdns fault list [FLAG...]         show the rules and their hits
       hsdns fault watch [FLAG...]        show each hit as it happens
       hsdns fault remove NAME [FLAG...]  end a rule
       hsdns fault clear [FLAG...]        end all rules
       hsdns fault scenarios [FLAG...]    list known failures
       hsdns fault run SCENARIO [FLAG...]          replay one in real time
       hsdns fault matrix [SCENARIO...] [FLAG...]  show what they cost each resolver
"""
ACTIONS: Final = """RULE is ACTION [SELECTOR...] [OPTION...], such as
  drop name below shop.svc.cluster.local type AAAA share 0.5 for 5m named lossy

Actions:
  drop | rcode RCODE | empty | nodata | nxdomain | answer ADDRESS|NAME|random
  delay TIME | delay normal MEAN DEVIATION | delay pareto LEAST SHAPE
  truncate [RECORDS] | ttl SECONDS | shuffle | cut RECORDS | endpoints COUNT
  refuse | hang | slow OCTETS | reset [OCTETS]  (of connections)
  queue-full | restart | die TIME [pending NUMBER]  (of the process)
  freeze | lag TIME | flap TIME
  watch away | watch forbidden RESOURCE

Selectors, all of which must match, or joined by "or", "not", ( and ):
  name NAME | name below NAME | name like PATTERN | type TYPE
  transport udp|tcp|dot|doh | client ADDRESS|NETWORK | pod NAMESPACE/NAME
  labels NAMESPACE/SELECTOR | asked ADDRESS | listener SERVER
  flow first | flow second TIME | flow existing TIME | flow new TIME
  nth NUMBER | share SHARE | after TIME | before TIME

Options:
  seed NUMBER | times NUMBER | for TIME | named NAME"""


class Fault(ServerCommand):
    """Sends a rule, or plays a scenario."""

    name = "fault"
    forms = f"{USAGE}\n{ACTIONS}"
    most_words = ANY
    suggested = WORDS
    interrupted = ("", 0)

    dry_run: bool = flag(
        False, f"show which of the last {LAST} queries the rule would have hit, without adding it"
    )
    about: str | None = flag(
        None, "run, matrix: name to look up instead of the scenario's", "NAME", name="name"
    )
    own: bool = flag(False, "run: start the scenario's own cluster, even if a server runs")
    ask: bool | None = flag(None, "run: look the names up as resolvers do (default with --own)")
    address: str | None = flag(
        None, "matrix: server to apply the faults to", "ADDRESS", name="server"
    )
    port: int = flag(53, "matrix: port of --server (default 53)", "PORT", name="p", low=1)
    programs: str = flag(
        "", "matrix: programs to use instead of the scenario's", "NAME,...", name="program"
    )
    through: str = flag("", "matrix: forwarder between the programs and the servers", "NAME")
    o: str = flag(
        "text",
        OUTPUT,
        help="format: text (default), or json, a line for each rule, hit or scenario",
    )

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """`add -dry-run RULE` is the same as `add RULE -dry-run`."""
        dry = [word for word in words if word.removeprefix("-") in ("dry-run", "-dry-run")]
        plain, rest = super().split([word for word in words if word not in dry])
        return plain, rest + dry

    def run(self) -> int:
        """Carry out the command of the first word."""
        command, *arguments = self.words or [""]
        self._check_flags(command)
        if command in SCENARIO_WORDS:
            return self._run_scenarios(command, arguments)
        if command not in WORDS:
            raise no_command(self.program(), command, WORDS)
        if command in ("list", "watch", "clear") and arguments:
            raise FlagError(f'hsdns fault {command} takes no arguments, found "{arguments[0]}"')
        if command == "remove" and len(arguments) != 1:
            raise FlagError(
                "hsdns fault remove takes the name of one rule; hsdns fault list has them"
            )
        if command == "add" and not arguments:
            raise FlagError("hsdns fault add takes a rule, such as: drop type AAAA; -h shows more")
        if self.dry_run and command not in ("add", "import"):
            raise FlagError(f"hsdns fault {command} has no --{DRY_RUN}; hsdns fault add has it")
        if command == "import":
            if len(arguments) != 1:
                raise FlagError("hsdns fault import takes one file, or - for its input")
            for rule in _imported(arguments[0]):
                self._send("add", rule)
            return 0
        self._send(command, " ".join(arguments))
        return 0

    def _send(self, command: str, words: str) -> None:
        """Send a command to the server, and show its answer."""
        method = {"add": "POST", "list": "GET", "watch": "GET"}.get(command, "DELETE")
        page, body, is_endless = PAGE, b"", command == "watch"
        if command == "add":
            body = json.dumps({"rule": words}).encode()
        elif command == "remove":
            page = f"{PAGE}?{urlencode({'name': words}, errors='surrogateescape')}"
        if self.dry_run:
            page = f"{PAGE}?{DRY_RUN}={LAST}"
        elif is_endless:
            page = f"{PAGE}/hits"
        found = self.server().lines(page, method, body, is_endless=is_endless)
        if self.o == "json":
            for each in found:
                say(json.dumps(each), flush=True)
            return
        if self.dry_run:
            tried, *hits = found
            say(*_tried_text(tried, hits), fits=True)
            return
        is_empty = command in ("list", "clear")
        for each in found:
            lines = _hit_text(each) if is_endless else _rule_text(each)
            say(*lines, flush=True, words=STATES, fits=True)
            is_empty = False
        if is_empty:
            say("no active rules")

    def _run_scenarios(self, command: str, words: Sequence[str]) -> int:
        """Run one of the commands; return the exit status; raise FlagError, ScenarioError or ServerError."""
        if command == "scenarios" and words:
            raise FlagError(f'hsdns fault scenarios takes no arguments, found "{words[0]}"')
        if command == "run" and len(words) > 1:
            raise FlagError("hsdns fault run takes one scenario; hsdns fault scenarios lists them")
        if command == "matrix":
            return _matrix(words, self)
        if command == "run" and words:
            from hsdns.fault_scenarios.cli import play_in_real_time

            return play_in_real_time(words[0], self)
        return _list(self.o == "json")

    def _check_flags(self, command: str) -> None:
        """Raise FlagError for a flag of another command."""
        for each, commands in ONLY_WITH.items():
            if each in self.given and command not in commands:
                *others, last = commands
                known = f"{', '.join(others)} and {last}" if others else last
                raise FlagError(f"{self.dashed(each)} is for hsdns fault {known}; remove it")
        if {"own", "control"} <= self.given:
            raise FlagError("--own starts a cluster, and --control names a server; use only one")


def _imported(path: str) -> list[str]:
    """The rules of all objects of a file; raise FlagError."""
    import yaml

    from hsdns.faults.dns_chaos import rules_of
    from hsdns.faults.rules import RuleError
    from hsdns.faults.words import read_rule

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(errors="replace")
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
        rules = [rule for each in documents for rule in rules_of(each)]
        for rule in rules:
            read_rule(rule.split())
    except (yaml.YAMLError, RuleError) as error:
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise FlagError(f"{path}: {problem}") from None
    if not rules:
        raise FlagError(f"{path} has no object")
    return rules


def _rule_text(rule: dict[str, Any]) -> list[str]:
    left = rule["seconds_left"]
    facts = [rule["state"]]
    if left is not None:
        facts.append(f"{duration_to_text(round(left))} left")
    hits, counts = rule["hits"], rule.get("counts", "queries")
    if counts == "restarts":
        facts.append("1 restart" if hits == 1 else f"{hits} restarts")
    else:
        facts.append(f"{hits} of {rule['queries']} {counts} hit")
    if rule["place"] != "control API":
        facts.append(f"from {rule['place']}")
    return [f"{rule['name']}: {', '.join(facts)}", f"  {rule['rule']}"]


def _tried_text(tried: dict[str, Any], hits: list[dict[str, Any]]) -> Iterator[str]:
    count, span = tried["queries"], duration_to_text(round(tried["seconds"]))
    yield tried["rule"]
    yield f"{len(hits)} of the last {count} queries, of {span}, would have been hit"
    if tried["may"]:
        yield f"{tried['may']} may have been hit"
    groups = Counter(
        f"{each['name']} {each['type']} over {each['transport']} from {each['client']}"
        for each in hits
    ).most_common()
    yield from (f"{number:6} {words}" for words, number in groups[:MOST])
    if len(groups) > MOST:
        yield f"       and {len(groups) - MOST} others; -o json has all"
    yield from (f"note: {sentence}" for sentence in tried["unforeseen"])


def _hit_text(hit: dict[str, Any]) -> list[str]:
    from hsdns.faults.rules import hit_to_text

    drawn = f" ({hit['drawn']:g} s)" if hit["action"].startswith("delay") else ""
    shown = f"{hit['action']}{drawn}, {hit_to_text(hit)}"
    return [f"{hit['time'][11:23]} {hit['rule']} hit {hit['hit']}: {shown}"]


def name_of(text: str) -> str:
    """The name for a scenario; raise FlagError."""
    try:
        return Name.from_text(text).to_text()
    except ValueError as error:
        raise FlagError(f'--name: "{text}" is not a domain name: {error}') from None


def _list(as_json: bool) -> int:
    from hsdns.fault_scenarios.scenario import load, names

    found = [load(name) for name in names()]
    width = max(len(each.name) for each in found)
    for each in found:
        if as_json:
            say(json.dumps({"scenario": each.name, "title": each.title, "seconds": each.seconds}))
        else:
            say(f"{each.name:{width}}  {each.title}", fits=True)
    return 0


def _matrix(words: Sequence[str], options: Fault) -> int:
    from hsdns.explanation.question import read_resolvers, read_through
    from hsdns.fault_scenarios.page import CLIENTS, LEGEND, as_list, as_table, play_all
    from hsdns.fault_scenarios.page import as_json as json_of
    from hsdns.fault_scenarios.scenario import load, names
    from hsdns.resolver import MODELS, looks_up

    behind = _behind(options)
    for name in ("name", "p"):
        if name in options.given and behind is None:
            raise FlagError(f"{options.dashed(name)} needs --server; add it, or remove it")
    name = name_of(NAME if options.about is None else options.about)
    scenarios = [load(word) for word in words or names()]
    through = read_through(options.through)
    chosen = options.programs.split(",") if "program" in options.given else []
    kinds = [asked.types for each in scenarios for asked in each.asked]
    programs = [*CLIENTS] * bool(through and not chosen)
    for word in chosen:
        able = [kind for kind in kinds if word in MODELS and looks_up(word, kind)]
        programs += read_resolvers(word, (able or kinds)[0])
    # The servers in memory log the effects of rules, which the table shows already.
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [logging.NullHandler()], False
    found = list(play_all(scenarios, behind, name, programs, through))
    if options.o == "json":
        for each in found:
            say(json.dumps(json_of(each)))
    elif len(words) == 1:
        say(*as_list(found[0]), fits=True)
    else:
        say(f"{LEGEND}{f', through {through}' if through else ''}", "", fits=True)
        say(*as_table(found, programs or CLIENTS, through, columns()), fits=True)
    missed = [(each.scenario.name, rule) for each in found for rule in each.never_hit]
    for scenario, rule in missed:
        complain(f'{scenario}: no query was hit by the rule "{rule}", so it has shown nothing')
    return 1 if missed else 0


def _behind(options: Fault) -> OtherServer | None:
    from hsdns.fault_scenarios.memory_server import OtherServer

    if options.address is None:
        return None
    if not is_address(options.address):
        raise FlagError(f'--server needs an IP address, found "{options.address}"')
    return OtherServer(options.address, options.port)
