import contextlib
import os
import shutil
import ssl
from pathlib import Path

import pytest

from hsdns.apiserver.access import Access
from hsdns.apiserver.client import TlsContexts
from hsdns.apiserver.transport import Unreachable
from tests.support.apiserver.scripted_http import TLS_DATA, server_context

CA, CERT, KEY = (TLS_DATA / name for name in ("ca.pem", "client.pem", "client.key"))


def access(
    authority: str | bytes | None = None,
    certificate: str | bytes | None = None,
    key: str | bytes | None = None,
    *,
    insecure: bool = False,
) -> Access:
    return Access("https://host", authority, certificate, key, insecure=insecure)


def context_for(wanted: Access) -> ssl.SSLContext:
    return TlsContexts(lambda sentence: None).context_for(wanted)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "127.0.0.1") -> str:
    """Do the handshake in memory; return the name in the client's certificate, or raise ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=name)
    theirs = server.wrap_bio(there, back, server_side=True)
    for side in (ours, theirs, ours, theirs):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    found = theirs.getpeercert() or {}
    return str(found["subject"]) if found else ""


def trusts(client: ssl.SSLContext, server: str, name: str = "127.0.0.1") -> bool:
    try:
        shake_hands(client, server_context(server), name)
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize(
    ("authority", "trusted"),
    [
        pytest.param(str(CA), ["server"], id="file"),
        pytest.param(CA.read_bytes(), ["server"], id="pem"),
        pytest.param("Müller's CA\r\n".encode("latin-1") + CA.read_bytes(), ["server"], id="comment"),
        pytest.param(CA.read_bytes() + (TLS_DATA / "other-ca.pem").read_bytes(), ["server", "other-server"], id="two"),
        pytest.param((TLS_DATA / "server.pem").read_bytes(), ["server"], id="the-certificate-itself"),
        pytest.param(None, [], id="this-host-s"),
    ],
)  # fmt: skip
def test_trust(authority: str | bytes | None, trusted: list[str]) -> None:
    context = context_for(access(authority))
    assert [name for name in ("server", "other-server") if trusts(context, name)] == trusted
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_the_strict_form_would_refuse_a_cluster_s_ca() -> None:
    context = context_for(access(str(CA)))
    assert trusts(context, "server")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert not trusts(context, "server")


def test_the_name_is_checked() -> None:
    context = context_for(access(str(CA)))
    assert trusts(context, "server", "kubernetes.default")
    assert not trusts(context, "server", "kubernetes.example.org")


def test_insecure() -> None:
    assert trusts(context_for(access(insecure=True)), "other-server", "any.example.org")


@pytest.mark.parametrize("in_memory", [True, False], ids=["memfd", "file"])
@pytest.mark.parametrize("as_file", [True, False], ids=["path", "pem"])
def test_client_certificate(
    as_file: bool, in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    pair = (str(CERT), str(KEY)) if as_file else (CERT.read_bytes(), KEY.read_bytes())
    context = context_for(access(str(CA), *pair))
    server = server_context()
    server.load_verify_locations(CA)
    server.verify_mode = ssl.CERT_REQUIRED
    assert "client" in shake_hands(context, server)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        pytest.param(access("missing"), "cannot read the CA file missing: No such file or directory", id="ca-missing"),
        pytest.param(access(str(KEY)), f"the CA file {KEY} contains no PEM certificate", id="ca-is-a-key"),
        pytest.param(access(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), "the CA in the kubeconfig contains an invalid certificate: ", id="ca-broken"),
        pytest.param(access(str(CA), str(CERT), "missing"), "cannot read the key file missing: No such file", id="key-missing"),
        pytest.param(access(str(CA), str(CERT)), "the client certificate lacks its key", id="no-key"),
        pytest.param(access(str(CA), None, str(KEY)), "the client key lacks its certificate", id="no-certificate"),
        pytest.param(access(str(CA), str(CERT), str(TLS_DATA / "server.key")), f"the certificate file {CERT} and the key file {TLS_DATA / 'server.key'} do not match", id="mismatch"),
        pytest.param(access(str(CA), CERT.read_bytes(), b"no key"), "the certificate in the kubeconfig or its key cannot be used: ", id="key-broken"),
        pytest.param(access(str(CA), str(CERT), str(TLS_DATA / "client-encrypted.key")), f"the key file {TLS_DATA / 'client-encrypted.key'} is encrypted; use a key without a passphrase", id="encrypted"),
    ],
)  # fmt: skip
def test_unusable(wanted: Access, sentence: str) -> None:
    with pytest.raises(Unreachable) as caught:
        context_for(wanted)
    assert str(caught.value).startswith(sentence)


class TestRotation:
    def test_new_ca(self, tmp_path: Path) -> None:
        contexts = TlsContexts(lambda sentence: None)
        path = tmp_path / "ca.crt"
        shutil.copy(CA, path)
        assert not trusts(contexts.context_for(access(str(path))), "other-server")
        shutil.copy(TLS_DATA / "other-ca.pem", path)
        assert trusts(contexts.context_for(access(str(path))), "other-server")

    def test_a_bad_file_keeps_the_old_context_with_one_warning(self, tmp_path: Path) -> None:
        warnings: list[str] = []
        contexts = TlsContexts(warnings.append)
        path = tmp_path / "ca.crt"
        shutil.copy(CA, path)
        before = contexts.context_for(access(str(path)))
        path.write_text("half written")
        for _ in range(3):
            assert contexts.context_for(access(str(path))) is before
        assert warnings == [
            f"the CA file {path} contains no PEM certificate; still using the previous files"
        ]
        shutil.copy(CA, path)
        assert contexts.context_for(access(str(path))) is before
        path.unlink()
        contexts.context_for(access(str(path)))
        assert len(warnings) == 2

    @pytest.mark.parametrize(
        "after",
        [access("missing"), access(b"nothing"), access(str(CA), str(CERT))],
        ids=["other-file", "other-pem", "with-a-client-certificate"],
    )
    def test_another_access_gets_no_old_context(self, after: Access) -> None:
        contexts = TlsContexts(lambda sentence: None)
        contexts.context_for(access(str(CA), insecure=True))
        with pytest.raises(Unreachable):
            contexts.context_for(after)
