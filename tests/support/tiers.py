"""Which tests a run takes: those of `make test`, those of CI, or all; and what a case may cost in the first.

Path: tests/conftest.py takes the hooks from here.
Rule 1: HSDNS_TIER is base, ci or night.  Without it a run that names files takes all of their tests, one that names
        folders is ci, any other one is base.
Rule 2: `slow` marks a test for CI: it needs more than LIMIT of CPU time, or starts processes.  `night` marks one that needs
        a browser or another language's tools.  FOLDERS has whole folders; one that is named is always taken.
Rule 3: what is left out is told at the end, with the reason.
Rule 4: in CI what costs more than LIMIT is told: in its own process and in those that it has waited for, in the speed of
        the machine on which LIMIT was chosen.  Nothing fails for being slow: the same case needs up to three times the CPU
        time beside other work.
Rule 5: a test or file of COSTLY is `slow` without a mark.  It and EXCEPTIONS may only shrink: a name goes when its test is
        cheap, has a mark, or is gone.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

BASE, CI, NIGHT = TIERS = ("base", "ci", "night")
LIMIT: Final = 0.2  # seconds of CPU time
REFERENCE: Final = (
    0.0028  # seconds of CPU time for _unit() on the machine on which LIMIT was chosen
)
# With the reason.  What `make check` runs is in no tier: nobody needs it twice.
FOLDERS: Final = {
    "tests/docs": (None, "the commands of the docs, which `make check` runs"),
    "tests/test_layout.py": (None, "the tree itself, which `make check` looks at"),
    "tests/test_sizes.py": (None, "the tree itself, which `make check` looks at"),
    "tests/test_words.py": (None, "the tree itself, which `make check` looks at"),
    "tests/distribution": (CI, "packages and workflows"),
    "tests/stock": (CI, "stock Corefiles where they expect to be, and real clients"),
    "tests/peer_suite": (NIGHT, "CoreDNS's own tests, in Go"),
}
MARKS: Final = {"slow": (CI, "slow"), "night": (NIGHT, "a browser, or tools of another language")}
# More of what holds behaviour stands on these than on all others, so they stay.
EXCEPTIONS: Final = frozenset(
    """
    TestHistories TestHistoriesInProtobuf test_a_reader_in_the_middle_of_an_event_finds_the_state_before_or_after
    test_an_answer_holds_until_a_counter_moves test_any_history_ends_where_its_objects_do test_any_reply
    test_any_reply_is_that_of_the_chain test_compiled_code_applies_slices_as_python_does
    test_dnspython_reads_what_was_given test_every_history_ends_in_what_it_left
    test_readers_see_whole_sets_and_none_that_is_over test_replies_are_the_references
    test_same_text_with_and_without_table test_table_and_chain_say_the_same
    test_what_is_explained_is_what_is_answered test_what_is_needed_makes_the_name_exist
    """.split()
)
COSTLY: Final = frozenset(
    """
    test_a_flood_of_once_asked_names_keeps_the_hot_ones
    test_a_long_run_is_still_a_small_page test_a_reader_that_takes_nothing_is_cut_off
    test_a_reply_longer_than_the_path_allows_goes_in_fragments test_a_rule_that_ends_while_another_change_goes_on
    test_a_stock_corefile_imports_nothing_that_it_does_not_need
    test_any_request_is_read_or_refused test_counted_octets_are_those_that_python_allocates
    test_endless_input_keeps_few_octets test_examples_pass_mypy test_imports_are_bounded
    test_it_is_what_queries_are_answered_with test_kubeconfig_process.py
    test_many_addresses_are_rotated_with_one_random_number test_no_claim_ends_the_process
    test_octets_are_those_of_memory test_reloads_and_one_sigterm_lose_nothing
    test_any_line_is_an_event_or_none test_queries_are_answered_between_the_pieces
    test_replies_that_are_forgotten test_small_frames_of_a_turn_are_bounded
    test_the_real_process test_the_ring_is_bounded_by_records
    test_the_test_of_the_page_passes test_what_was_packed_comes_back_equal
    """.split()
)

_began = pytest.StashKey[float]()
_left_out: Counter[str] = Counter()  # of this process, or of all workers
_costs: dict[str, float] = {}


def tier_of(config: pytest.Config) -> str:
    """The tier of a run; raise UsageError."""
    chosen = os.environ.get("HSDNS_TIER")
    if not chosen:
        if config.args_source != pytest.Config.ArgsSource.ARGS:
            return BASE
        return NIGHT if any(".py" in each for each in config.args) else CI
    if chosen not in TIERS:
        raise pytest.UsageError(f"HSDNS_TIER is {chosen}; it must be one of {', '.join(TIERS)}")
    return chosen


def _is_judged(config: pytest.Config) -> bool:
    """Whether the costs of this run are judged: of all of CI, not of files that are named."""
    return tier_of(config) == CI and config.args_source != pytest.Config.ArgsSource.ARGS


def _is_later(tier: str, chosen: str) -> bool:
    return TIERS.index(tier) > TIERS.index(chosen)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders of a later tier, unless some are named."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    if name not in FOLDERS or config.args_source == pytest.Config.ArgsSource.ARGS:
        return None
    tier, reason = FOLDERS[name]
    if tier is not None and not _is_later(tier, tier_of(config)):
        return None
    _left_out[f"{name}, {reason}"] = 0
    return True


def _reason(item: pytest.Item, chosen: str) -> str | None:
    """Why a test is left out; None if it is not."""
    is_costly = not COSTLY.isdisjoint((item.path.name, _name(item)))
    for mark, (tier, reason) in MARKS.items():
        is_marked = item.get_closest_marker(mark) or (mark == "slow" and is_costly)
        if is_marked and _is_later(tier, chosen):
            return reason
    return None


def _is_base(item: pytest.Item) -> bool:
    path = item.path.relative_to(item.config.rootpath).as_posix()
    return _reason(item, BASE) is None and not any(path.startswith(each) for each in FOLDERS)


def _name(item: pytest.Item) -> str:
    return item.nodeid.split("::")[1].partition("[")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of a later tier."""
    chosen, kept = tier_of(config), []
    for item in items:
        reason = _reason(item, chosen)
        if reason is None:
            kept.append(item)
        else:
            _left_out[reason] += 1
    items[:] = kept


# --- what a case costs ---


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _unit() -> float:
    """The CPU time of a fixed piece of work."""
    began = time.process_time()
    sum(number * number for number in range(100_000))
    return time.process_time() - began


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the cost of a case of the base tier in its last report."""
    report = yield
    if call.when == "setup":
        item.stash[_began] = item.stash.get(_began, _cpu())
    elif call.when == "teardown" and _is_base(item):
        cost = _cpu() - item.stash[_began]
        if cost > LIMIT:
            report.user_properties.append(("cpu", cost * min(1.0, REFERENCE / _unit())))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the cases cost, from all workers."""
    for name, value in report.user_properties:
        if name == "cpu" and isinstance(value, float):
            _costs[report.nodeid] = value


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what a worker has left out."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker has left out; all of them have collected the same."""
    _left_out.update(dict.fromkeys(_left_out, 0))
    for reason, count in getattr(node, "workeroutput", {}).get("left_out", {}).items():
        _left_out[reason] = count


def _costly() -> Iterator[str]:
    for case, cost in sorted(_costs.items(), key=lambda item: -item[1]):
        if case.split("::")[1].partition("[")[0] not in EXCEPTIONS:
            yield f"{case}: {cost:.2f} s"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell what was left out, and which cases cost too much."""
    for reason, count in sorted(_left_out.items()):
        number = f"{count:,} tests, " if count else ""
        terminalreporter.write_line(f"LEFT OUT: {number}{reason}")
    for line in _costly() if _is_judged(config) else ():
        terminalreporter.write_line(f"COSTLY, to be cheaper or marked slow: {line}")
