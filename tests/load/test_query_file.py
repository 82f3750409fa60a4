import pytest

from hsdns.load.errors import LoadError
from hsdns.load.query_file import read_queries
from hsdns.load.questions import Question
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
    ("text", "sentence"),
    [
        ("", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("; none", "q.txt: there are no queries in it; write lines such as www.example.com A"),
        ("a.test A\na.test", 'q.txt:2: "a.test" is not a name and a type; write a line such as www.example.com A'),
        ("a.test A IN", 'q.txt:1: "a.test A IN" is not a name and a type; write a line such as www.example.com A'),
        ("a.test AAAAA", 'q.txt:1: "AAAAA" is not a record type; did you mean "AAAA"?'),
        ("a..test A", 'q.txt:1: "a..test" is no name: label b\'\' has 0 octets, allowed are 1 to 63'),
    ],
)  # fmt: skip
def test_bad_files(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_queries(text.splitlines(), "q.txt")
    assert str(error.value) == sentence
