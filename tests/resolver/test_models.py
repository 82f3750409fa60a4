"""What the models do where no trace is; lookups.txt has a row for each lookup."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from hsdns.resolver import MODELS, looks_up, model_of
from hsdns.resolver.cares import CAres
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.resolver.forwarders.forwarder import Between
from hsdns.resolver.model import CLOSED, Answer, Fate, Model, Packet, Trace, candidates, within
from hsdns.resolver.resolv_conf import Reader, read_resolv_conf
from hsdns.wire.iana import Rcode, RRType, rcode_from_text, type_from_text, type_to_text
from tests.resolver.test_traces import ALL, MODEL_OF, PROGRAMS
from tests.support.resolvers.lookups import trace_of
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

BOTH = (RRType.A, RRType.AAAA)
KUBE = "nameserver 10.96.0.10\nsearch a.test b.test\noptions ndots:2\n"
OK = Answer(addresses=("192.0.2.1",))
FATES: dict[str, Fate] = {
    "OK": (0.0, OK),
    "LATE": (60.0, OK),
    "NODATA": (0.0, Answer()),
    "MANY": (0.0, Answer(addresses=tuple(f"192.0.2.{each}" for each in range(60)))),
    "CLOSED": (0.0, CLOSED),
    "SILENT": None,
}


@pytest.mark.parametrize(
    ("row", "expected"), columns(Path(__file__).with_name("lookups.txt"), "lookups")
)
def test_lookups(row: str, expected: str) -> None:
    words, _, given = row.partition(" ; ")
    resolver, name, *rest = words.split()
    resolver, _, through = resolver.partition(">")
    types = [type_from_text(each) for each in rest if each in ("A", "AAAA")] or BOTH
    text = f"{KUBE}options {' '.join(each for each in rest if each.islower())}\n"
    answers = dict(each.split("=") for each in given.split())

    def ask(packet: Packet) -> Fate:
        query = f"{type_to_text(packet.rrtype)}:{packet.name}"
        word = answers.get(query, answers.get(packet.name, "NXDOMAIN"))
        return FATES[word] if word in FATES else (0.0, Answer(rcode_from_text(word)))

    model = model_of(resolver, text, Random(0), Between(through))
    packets, _, _, result = trace_of(model, name, types, ask)
    sent = ", ".join(f"{type_to_text(each.rrtype)} {each.name}" for each in packets)
    kind, _, value = expected.partition(" ")
    assert {"queries": sent, "error": result.error, "why": result.why}[kind] == value
    assert bool(result.addresses) is not bool(result.error)


@pytest.mark.parametrize(("name", "tried"), values(TABLES, "candidates"))
def test_candidates(name: str, tried: list[str]) -> None:
    assert candidates(read_resolv_conf(KUBE, Reader("any", {})), name) == tried


@pytest.mark.parametrize("resolver", [each for each in MODELS if looks_up(each, BOTH)])
def test_what_a_silent_server_costs_at_any_time(resolver: str) -> None:
    def cost(model: Model, at: float) -> float:
        ask = lambda packet: (0.7, OK) if packet.server else None  # noqa: E731 - short
        return round(trace_of(model, "web.", BOTH, ask, at).end - at, 3)

    text = f"{KUBE}nameserver 192.0.2.2\n"
    models = [MODELS[resolver](text, Random(0)) for _ in range(4)]
    costs = [cost(model, at) for model, at in zip(models, (0.0, 2.4, 6.3, 14.1), strict=True)]
    assert len({*costs}) == 1
    if resolver == "grpc-core":  # each of its lookups has a channel of its own
        assert [*costs[:1], cost(models[0], 40.0)] == [2.7, 2.7]


def test_within() -> None:
    answer = Answer(addresses=("192.0.2.1",) * 60)
    sizes = {size: len(within(answer, RRType.A, "h.example.com", size)) for size in (510, 511, 512, 65535)}  # fmt: skip
    assert sizes == {510: 29, 511: 30, 512: 30, 65535: 60}, "as many as fit, 31 + 30 * 16 octets"


def channel(model: CAres, name: str, fate: Fate) -> Trace:
    return trace_of(model, name, BOTH, lambda packet: fate, model.now)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [(OK._replace(ttl=30), 30), (Answer(Rcode.NXDOMAIN, ttl=7), 7), (Answer(ttl=5), 3600)],
)
def test_cache_of_c_ares(answer: Answer, seconds: int) -> None:
    model = CAres("", Random(0))
    first = channel(model, "web.", (0.0, answer)).result
    model.now += seconds - 1
    packets, _, _, result = channel(model, "web.", (0.0, answer))
    assert (packets, result.error, result.addresses) == ([], first.error, first.addresses)
    model.now += 2
    assert len(channel(model, "web.", (0.0, answer)).packets) == 2


def test_c_ares_waits_five_times_as_long_as_its_server_takes() -> None:
    model = CAres("", Random(0))
    for name in ("a.", "b."):
        channel(model, name, (0.2, Answer(Rcode.NXDOMAIN)))
    first = model.now
    found = channel(model, "c.", None)
    assert len(found.packets) == 6
    assert 1.0 + 1.0 + 2.0 <= found.end - first <= 1.0 + 2.0 + 4.0


def test_musl_gives_up_on_time_after_a_late_round() -> None:
    # A busy load generator is late, and with it the model's clock.
    waiting = (model := model_of("musl", KUBE, Random(0))).lookup("web.", BOTH)
    next(waiting)
    model.now = 4.0
    model.now = next(waiting) or 0.0
    assert next(waiting, "ended") == "ended"


def test_the_page_lists_the_programs() -> None:
    """The tables of docs/resolve.md, from the models."""
    page = (Path(__file__).parents[2] / "docs" / "resolve.md").read_text()
    for table, models in (("programs", MODELS), ("forwarders", FORWARDERS)):
        _, _, rest = page.partition(f"<!-- {table}: begin -->\n\n")
        assert rest.partition(f"\n<!-- {table}: end -->")[0].splitlines()[2:] == [
            f"| `{each.name}` | {each.used_by} | {each.keeps.text} |" for each in models.values()
        ]
    assert f"{len(ALL):,} traces of real" in page


GONE = re.compile(r"== gone-(\d+) .*\nRESULT .* for ([\d.]+) s( \(to)?")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda each: each.stem)
def test_how_long_a_removed_record_is_used(path: Path) -> None:
    model = MODELS.get(MODEL_OF[path.stem])
    for ttl, seconds, to_the_end in GONE.findall(path.read_text()) if model else ():
        assert model is not None
        late = float(seconds) - model.keeps.seconds(int(ttl))
        # It was looked up twice a second, and clocks of whole seconds end a TTL up to one earlier.
        assert late <= 0 if to_the_end else -1.3 < late < 1
