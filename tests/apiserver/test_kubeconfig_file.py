from pathlib import Path

import pytest

from hsdns.apiserver.kubeconfig import Context, KubeconfigError, read_context

GOOD = """
apiVersion: v1
kind: Config
current-context: lab
contexts:
- {name: lab, context: {cluster: one, user: jane}}
- {name: production, context: {cluster: two}}
- {name: lost, context: {cluster: nowhere, user: jane}}
- {name: stranger, context: {cluster: one, user: nobody}}
- {name: empty, context: {cluster: bare, user: jane}}
clusters:
- {name: one, cluster: {server: "https://one", certificate-authority: ca.crt}}
- {name: two, cluster: {server: "https://two"}}
- {name: bare, cluster: {}}
users:
- {name: jane, user: {token: hunter2, client-key: /etc/key, exec: {command: ./bin/login}}}
- {name: joan, user: {token: second}}
"""


def write(folder: Path, text: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("", "lab", id="current"),
        pytest.param("lab", "lab", id="named"),
        pytest.param("production", "production", id="without-user"),
    ],
)
def test_context(tmp_path: Path, name: str, expected: str) -> None:
    lab = Context(
        "lab",
        {"server": "https://one", "certificate-authority": str(tmp_path / "ca.crt")},
        {
            "token": "hunter2",
            "client-key": "/etc/key",
            "exec": {"command": str(tmp_path / "bin/login")},
        },
    )
    production = Context("production", {"server": "https://two"}, {})
    found = read_context(write(tmp_path, GOOD), name)
    assert found == {"lab": lab, "production": production}[expected]
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("prodution", 'has no context "prodution"; did you mean "production"? (it has: empty, lab, lost, production, stranger)', id="typing-error"),
        pytest.param("xyz", 'has no context "xyz" (it has: empty, lab, lost, production, stranger)', id="unknown"),
        pytest.param("lost", 'refers to cluster "nowhere", which does not exist', id="cluster"),
        pytest.param("stranger", 'refers to user "nobody", which does not exist', id="user"),
        pytest.param("empty", 'cluster "bare" of kubeconfig', id="server"),
    ],
)  # fmt: skip
def test_context_with_a_missing_entry(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read_context(write(tmp_path, GOOD), name)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("current-context: a\ncontexts: [{name: a, context: {}}, {name: b, context: {}}, {name: a, context: {}}]", 'kubeconfig PATH has two contexts named "a"; rename or remove one of them', id="two-of-one-name"),
        pytest.param("users: []", 'kubeconfig PATH has no current-context; name one: "kubeconfig PATH CONTEXT" (it has none)', id="no-current"),
        pytest.param("[1, 2]", "kubeconfig PATH is not a kubeconfig: it has no contexts", id="a-list"),
        pytest.param("", "kubeconfig PATH is not a kubeconfig: it has no contexts", id="empty"),
        pytest.param("a: b\ntoken: hunter2: x", "kubeconfig PATH:2:15 is not YAML: mapping values are not allowed here", id="no-yaml"),
        pytest.param("current-context: a\ncontexts: [hunter2]", '"contexts" of kubeconfig PATH is malformed', id="entry"),
        pytest.param("current-context: a\ncontexts: hunter2", '"contexts" of kubeconfig PATH is malformed', id="entries"),
        pytest.param("a: \x07", "kubeconfig PATH is not YAML (ReaderError)", id="control-character"),
    ],
)  # fmt: skip
def test_no_kubeconfig(tmp_path: Path, text: str, sentence: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(KubeconfigError) as caught:
        read_context(path)
    assert str(caught.value) == sentence.replace("PATH", path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(KubeconfigError) as caught:
        read_context(missing)
    assert str(caught.value) == (
        f"cannot read kubeconfig {missing}: No such file or directory; correct the path or its permissions"
    )
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\xff")
    with pytest.raises(KubeconfigError) as caught:
        read_context(str(path))
    assert str(caught.value) == f"kubeconfig {path} is not valid UTF-8"


def test_named_files_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("a PEM")
    path = write(
        tmp_path,
        """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: https://c, certificate-authority: gone.crt}}]
users: [{name: u, user: {client-certificate: there, client-key: gone, client-key-data: YQ==, tokenFile: token}}]
""",
    )
    assert read_context(path).missing_files == [
        f'cannot read {tmp_path}/gone.crt ("certificate-authority"): No such file or directory',
        f'cannot read {tmp_path}/token ("tokenFile"): No such file or directory',
    ]
