"""`hsdns fault scenarios|matrix|run`: lists known failures, or plays them in simulated or real time.

Path: fault.py -> here -> hsdns/fault_scenarios/; fault_run.py plays one against a running server.
Rule: the exit status is 1 if a rule has hit no query, since that shows nothing, or for refused input; 2 if no server
      could be reached.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from hsdns.cli.flags import FlagError
from hsdns.cli.output import complain, say, say_text
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.cli.fault import Fault
    from hsdns.fault_scenarios.memory_server import OtherServer

SCENARIO_WORDS: Final = ("run", "scenarios", "matrix")
ONLY_WITH: Final = {
    "name": ("run", "matrix"),
    "own": ("run",),
    "ask": ("run",),
    "server": ("matrix",),
    "p": ("matrix",),
    "control": ("add", "list", "watch", "remove", "clear", "run"),
}
NAME: Final = "kubernetes.default.svc.cluster.local."  # a name that every cluster has


def run_scenarios(command: str, words: Sequence[str], options: Fault) -> int:
    """Run one of the commands; return the exit status; raise FlagError, ScenarioError or ServerError."""
    if command == "scenarios" and words:
        raise FlagError(f'hsdns fault scenarios takes no words, found "{words[0]}"')
    if command == "run" and len(words) > 1:
        raise FlagError("hsdns fault run takes one scenario; hsdns fault scenarios lists them")
    if command == "matrix":
        return _matrix(words, options)
    if command == "run" and words:
        from hsdns.cli.fault_run import play_in_real_time

        return play_in_real_time(words[0], options)
    return _list(options.o == "json")


def name_of(text: str) -> str:
    """The name for a scenario; raise FlagError."""
    try:
        return Name.from_text(text).to_text()
    except ValueError as error:
        raise FlagError(f'-name: "{text}" is not a domain name: {error}') from None


def _list(as_json: bool) -> int:
    from hsdns.fault_scenarios.scenario import load, names

    found = [load(name) for name in names()]
    width = max(len(each.name) for each in found)
    for each in found:
        if as_json:
            say(json.dumps({"scenario": each.name, "title": each.title, "seconds": each.seconds}))
        else:
            say(f"{each.name:{width}}  {each.title}")
    return 0


def _matrix(words: Sequence[str], options: Fault) -> int:
    from hsdns.fault_scenarios.page import LEGEND, as_list, as_table, play_all
    from hsdns.fault_scenarios.page import as_json as json_of
    from hsdns.fault_scenarios.scenario import load, names

    behind = _behind(options)
    for flag in ("name", "p"):
        if flag in options.given and behind is None:
            raise FlagError(f"-{flag} is for -server; add -server ADDRESS, or leave -{flag} out")
    name = name_of(NAME if options.about is None else options.about)
    scenarios = [load(word) for word in words or names()]
    # The servers in memory log the effects of rules, which the table shows already.
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [logging.NullHandler()], False
    found = list(play_all(scenarios, behind, name))
    if options.o == "json":
        for each in found:
            say(json.dumps(json_of(each)))
    elif len(words) == 1:
        say(*as_list(found[0]))
    else:
        say_text(f"{LEGEND}\n\n")
        say(*as_table(found))
    missed = [(each.scenario.name, rule) for each in found for rule in each.never_hit]
    for scenario, rule in missed:
        sentence = f'no query was hit by the rule "{rule}", so it has shown nothing'
        complain(f"{scenario}: {sentence}")
    return 1 if missed else 0


def _behind(options: Fault) -> OtherServer | None:
    from hsdns.fault_scenarios.memory_server import OtherServer

    if options.address is None:
        return None
    try:
        ip_address(options.address)
    except ValueError:
        raise FlagError(f'-server needs an IP address, found "{options.address}"') from None
    return OtherServer(options.address, options.port)
