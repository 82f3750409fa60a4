import pytest

from hsdns.testing.pod import forms, is_address, is_loopback, resolv_conf


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "web",
            ("web.shop.svc.cluster.local", "web.svc.cluster.local", "web.cluster.local", "web"),
        ),
        ("Web.", ("web",)),
        ("web.shop.svc.cluster.local", ("web.shop.svc.cluster.local",)),
        ("cluster.local", ("cluster.local",)),
        ("1.0.0.10.in-addr.arpa", ("1.0.0.10.in-addr.arpa",)),
        ("example.org.", ("example.org",)),
        (
            "mycluster.local",
            (
                "mycluster.local.shop.svc.cluster.local",
                "mycluster.local.svc.cluster.local",
                "mycluster.local.cluster.local",
                "mycluster.local",
            ),
        ),
    ],
)
def test_forms(name: str, found: tuple[str, ...]) -> None:
    assert forms(name, "shop") == found


def test_resolv_conf() -> None:
    assert resolv_conf("shop").splitlines() == [
        "search shop.svc.cluster.local svc.cluster.local cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
    ]


@pytest.mark.parametrize(
    ("text", "found"), [("10.0.0.1", True), ("fd00::1", True), ("web", False), ("", False)]
)
def test_is_address(text: str, found: bool) -> None:
    assert is_address(text) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("localhost", False)],
)
def test_addresses_of_this_machine(text: str, found: bool) -> None:
    assert is_loopback(text) is found
