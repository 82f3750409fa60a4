"""`hsdns fault scenarios|matrix|run`: lists known failures, or plays them in simulated or real time.

Path: fault.py -> here -> hsdns/fault_scenarios/; fault_run.py plays one against a running server.
Rule: the exit status is 1 if a rule has hit no query, since that shows nothing, or for refused input; 2 if no server
      could be reached.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from hsdns.cli.flags import FlagError
from hsdns.cli.output import complain, say, say_text
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.fault_scenarios.ahead import OtherServer

SCENARIO_WORDS: Final = ("run", "scenarios", "matrix")
ONLY_WITH: Final = {
    "name": ("run", "matrix"),
    "own": ("run",),
    "ask": ("run",),
    "server": ("matrix",),
    "p": ("matrix",),
    "control": ("add", "list", "watch", "remove", "clear", "run"),
}
PORT: Final = 53
NAME: Final = "kubernetes.default.svc.cluster.local."  # a name that every cluster has
Flags = Mapping[str, object]


def check_flags(command: str, flags: Flags) -> None:
    """Raise FlagError for a flag of another command."""
    for flag, commands in ONLY_WITH.items():
        if flag in flags and command not in commands:
            *others, last = commands
            known = f"{', '.join(others)} and {last}" if others else last
            raise FlagError(f"-{flag} is for hsdns fault {known}; leave it out")
    if "own" in flags and "control" in flags:
        raise FlagError("-own has a cluster of its own, and -control names another; leave one out")


def run_scenarios(command: str, words: Sequence[str], flags: Flags, *, as_json: bool) -> int:
    """Run one of the commands; return the exit status; raise FlagError or ServerError."""
    from hsdns.fault_scenarios.scenario import ScenarioError

    if command == "scenarios" and words:
        raise FlagError(f'hsdns fault scenarios takes no words, found "{words[0]}"')
    if command == "run" and len(words) > 1:
        raise FlagError("hsdns fault run takes one scenario; hsdns fault scenarios lists them")
    try:
        if command == "matrix":
            return _matrix(words, flags, as_json)
        if command == "run" and words:
            from hsdns.cli.fault_run import play_in_real_time

            return play_in_real_time(words[0], flags, as_json=as_json)
        return _list(as_json)
    except ScenarioError as error:
        raise FlagError(str(error)) from None


def name_of(flags: Flags, default: str) -> str:
    """The name for a scenario; raise FlagError."""
    text = str(flags.get("name", default))
    try:
        name = Name.from_text(text)
    except ValueError as error:
        raise FlagError(f'-name: "{text}" is not a domain name: {error}') from None
    return name.to_text()


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


def _matrix(words: Sequence[str], flags: Flags, as_json: bool) -> int:
    from hsdns.fault_scenarios.matrix import LEGEND, as_list, as_table, play_all
    from hsdns.fault_scenarios.matrix import as_json as json_of
    from hsdns.fault_scenarios.scenario import load, names

    behind = _behind(flags)
    for flag in ("name", "p"):
        if flag in flags and behind is None:
            raise FlagError(f"-{flag} is for -server; add -server ADDRESS, or leave -{flag} out")
    name = name_of(flags, NAME)
    scenarios = [load(word) for word in words or names()]
    # The servers in memory log the effects of rules, which the table shows already.
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [logging.NullHandler()], False
    found = list(play_all(scenarios, behind, name))
    if as_json:
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


def _behind(flags: Flags) -> OtherServer | None:
    from hsdns.fault_scenarios.ahead import OtherServer

    if "server" not in flags:
        return None
    address = str(flags["server"])
    try:
        ip_address(address)
    except ValueError:
        raise FlagError(f'-server needs an IP address, found "{address}"') from None
    return OtherServer(address, int(str(flags.get("p", PORT))))
