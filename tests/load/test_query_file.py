import pytest

from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, read_queries
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name


def test_lines() -> None:
    text = (
        "; a comment\n\n# another\nwww.example.com A\nexample.com.\tmx\n1.0.0.10.in-addr.arpa PTR\n"
    )
    assert read_queries(text.splitlines(keepends=True), "q") == [
        Question(Name.from_text("www.example.com."), RRType.A, "file"),
        Question(Name.from_text("example.com."), RRType.MX, "file"),
        Question(Name.from_text("1.0.0.10.in-addr.arpa."), RRType.PTR, "file"),
    ]


@pytest.mark.parametrize(
    ("line", "name", "qtype"),
    [
        ("www.example.com\t \ta", "www.example.com.", RRType.A),
        ("www.example.com A IN", "www.example.com.", RRType.A),
        ("www.example.com A\r\n", "www.example.com.", RRType.A),
        (". NS", ".", RRType.NS),
        ("a\\.b.test TYPE65", "a\\.b.test.", RRType.HTTPS),
        ("a.test type65535", "a.test.", 65535),
        ("a.test NSAP-PTR", "a.test.", 23),
        ("a.test amtrelay", "a.test.", 260),
        ("a.test NULL", "a.test.", 10),
        ("add A", "add.", RRType.A),
    ],
)
def test_a_line(line: str, name: str, qtype: int) -> None:
    assert read_queries([line], "q") == [Question(Name.from_text(name), qtype, "file")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("; none", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("a.test A\na.test", 'q.txt:2: "a.test" is not a name and a type; write a line such as www.example.com A'),
        ("a.test A CH", 'q.txt:1: "a.test A CH" is not a name and a type; write a line such as www.example.com A'),
        ("a.test AAAAA", 'q.txt:1: "AAAAA" is not a record type; did you mean "AAAA"?'),
        ("a.test IN A", 'q.txt:1: "a.test IN A" is not a name and a type; write a line such as www.example.com A'),
        ("a.test TYPE65536", 'q.txt:1: "TYPE65536" is not a record type'),
        ("a.test C", 'q.txt:1: "C" is not a record type'),
        ("a.test A\nadd x 3600 A 10.1.2.3",
         'q.txt:2: "add x 3600 A 10.1.2.3" is of a dynamic update (dnsperf -u), and only queries are sent'),
        ("a.test A\nsend", 'q.txt:2: "send" is of a dynamic update (dnsperf -u), and only queries are sent'),
        ("\0\x1d\0\0", "q.txt:1: this is no text; a file for dnsperf -B is not read"),
        ("a..test A", 'q.txt:1: "a..test" is no name: label b\'\' has 0 octets, allowed are 1 to 63'),
    ],
)  # fmt: skip
def test_bad_files(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_queries(text.splitlines(), "q.txt")
    assert str(error.value) == sentence
