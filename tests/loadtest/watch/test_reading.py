import pytest

from loadtest.apiserver.objects import changed_address, endpoint_slice, namespaces
from loadtest.process import Memory, cpu_ticks_of, memory_of
from loadtest.watch.churn import Load, Sample, match
from loadtest.watch.cli import parser, plan_of
from loadtest.watch.dns import a_record_of, question
from loadtest.watch.fake_api_process import Change
from loadtest.watch.latency import is_complete
from loadtest.watch.plan import Plan, latency_size
from loadtest.watch.watched_slice import WatchedSlice

# --- /proc ---


@pytest.mark.parametrize("name", ["hsdns", "a b", "x) S 1 2 3 (y"])
def test_cpu_ticks(name: str) -> None:
    before = "S 1 1 1 0 -1 4194304 2000 0 0 0"
    assert cpu_ticks_of(f"42 ({name}) {before} 100 20 3 4 20 0 1 0 12345 0") == 127


def test_memory() -> None:
    status = "Name:\thsdns\nVmPeak:\t 9 kB\nVmHWM:\t   30 kB\nVmRSS:\t   20 kB\nThreads:\t1\n"
    assert memory_of(status) == Memory(now=20 * 1024, peak=30 * 1024)


def test_memory_of_a_process_that_has_ended() -> None:
    assert memory_of("Name:\thsdns\nState:\tZ (zombie)\n") == Memory(0, 0)


# --- the command line ---


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("", Plan(), id="nothing"),
        pytest.param("--quick", Plan().quick(), id="quick"),
        pytest.param("--sizes 50000,1000", Plan(sizes=(50_000, 1_000)), id="sizes"),
        pytest.param("--parts start,flood", Plan(parts=("start", "flood")), id="parts"),
        pytest.param(
            "--quick --rounds 5", Plan().quick()._replace(rounds=5), id="a word wins over quick"
        ),
    ],
)
def test_plan(words: str, expected: Plan) -> None:
    assert plan_of(parser().parse_args(words.split())) == expected


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--sizes 0", "0 is not from 1 to 100000"),
        ("--sizes 1000,x", "x is not from 1 to 100000"),
        (
            "--parts start,stop",
            "stop is no part; choose from imports, start, latency, return, churn, flood",
        ),
        ("-o yaml FILE", "yaml is no format; the only one is json"),
    ],
)
def test_wrong_word(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words.split())
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1_000,), 1_000), ((50_000, 10_000, 1_000), 10_000), ((50_000, 1_000), 50_000)],
)
def test_latency_size(sizes: tuple[int, ...], expected: int) -> None:
    assert latency_size(sizes) == expected


# --- HTTP and DNS ---


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True),
    ],
    ids=["nothing", "half a head", "half a body", "length", "no last chunk", "chunks"],
)
def test_answer_is_whole(data: bytes, expected: bool) -> None:
    assert is_complete(data) is expected


def test_question() -> None:
    assert question("a.example.org") == (
        b"\1\0\0\1\0\0\0\0\0\0" + b"\1a\7example\3org\0" + b"\0\1\0\1"
    )


def test_what_a_reply_shows() -> None:
    assert a_record_of("172.16.0.1") == b"\0\4\xac\x10\0\1"


# --- objects ---


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param(0, 1, ["team-0"], id="one Service"),
        pytest.param(0, 201, ["team-0", "team-1", "team-2"], id="a beginning"),
        pytest.param(100, 200, ["team-1"], id="grown by a whole namespace"),
        pytest.param(150, 200, [], id="grown within a namespace"),
        pytest.param(150, 201, ["team-2"], id="grown beyond a namespace"),
    ],
)
def test_namespaces(first: int, last: int, expected: list[str]) -> None:
    made = [made.manifest["metadata"]["name"] for made in namespaces(first, last)]
    assert made == expected


def test_slice_reads_back() -> None:
    found = WatchedSlice.of(endpoint_slice(101, 3).manifest)
    assert found == WatchedSlice(
        "team-1", "web-101-x7k2p", "web-101", ("10.0.1.48", "10.0.1.49", "10.0.1.50")
    )
    assert found.dns_name == "web-101.team-1.svc.cluster.local"


def test_no_address_stands_twice() -> None:
    slices = [WatchedSlice.of(endpoint_slice(index, 10).manifest) for index in range(50)]
    given = [address for found in slices for address in found.addresses]
    given += [changed_address(number) for number in range(500)]
    assert len(set(given)) == len(given)


# --- which change a reply shows ---


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        pytest.param(Sample("web-1", 9.0, 10.5, b""), [0.5], id="seen"),
        pytest.param(Sample("web-1", 9.0, 12.0, None), [2.0], id="not seen: what was waited"),
        pytest.param(Sample("web-1", 10.1, 10.5, b""), [], id="changed before"),
        pytest.param(Sample("web-1", 9.0, 9.9, None), [], id="changed after"),
        pytest.param(Sample("web-2", 9.0, 10.5, b""), [], id="another Service"),
    ],
)
def test_match(sample: Sample, expected: list[float]) -> None:
    changes = [Change(10.0, "team-0", "web-1", "10.0.0.1", "172.16.0.1")]
    assert match(changes, [sample]) == expected


def test_loads_of_streams_differ() -> None:
    assert Plan().churn == Load(10_000, 1_000.0, 20.0, 500.0)
    assert Plan().flood == Load(10_000, 5_000.0, 60.0, 0.0)
