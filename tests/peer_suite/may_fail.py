"""The tests of CoreDNS 1.14.7 that may fail, each with the reason.

Path: test_suite.py reports these as expected failures.  A checkout need not have all of them.
"""

from __future__ import annotations

from typing import Final

_QUIC = "QUIC, HTTP/3 and gRPC are not served: docs/contributing/compatibility.md, https3, quic, grpc_server"

# hsdns differs, or refuses what the test configures.
OF_HSDNS: Final[dict[str, str]] = {
    "TestACMEDNS01CertificateManagement": "`tls` has no `acme`: hsdns does not fetch certificates",
    "TestChaos": "chaos without arguments names the server that answers, which is hsdns",
    "TestGRPCConnectionLimit": _QUIC,
    "TestGRPCTLSWithLimits": _QUIC,
    "TestGRPCWithLimits": _QUIC,
    "TestGrpc": _QUIC,
    "TestHTTPS3": _QUIC,
    "TestHTTPS3WithLimits": _QUIC,
    "TestQUIC": _QUIC,
    "TestQUICProtocolError": _QUIC,
    "TestQUICReloadDoesNotPanic": _QUIC,
    "TestQUICStreamLimits": _QUIC,
    "TestReadme": "the examples of plugins that hsdns refuses, and `prometheus localhost:` without a port",
}
# They pass on some machines.
BY_MACHINE: Final[dict[str, str]] = {
    "TestMultisocket": "without `multisocket` hsdns has a UDP socket for each CPU, CoreDNS one",
    "TestMetricsAvailable": "asks 8.8.8.8, which not every machine reaches",
    "TestMetricsAvailableAfterReload": "asks 8.8.8.8, which not every machine reaches",
    "TestMetricsAvailableAfterReloadAndFailedReload": "asks 8.8.8.8, which not every machine reaches",
    "TestZoneExternalCNAMELookupWithProxy": "asks 8.8.8.8, which not every machine reaches",
}
# What a process cannot show; CoreDNS as a process fails them too.
OF_A_PROCESS: Final[dict[str, str]] = {
    "TestMetricsRewriteRequestSize": "counts the queries of two servers in one process",
    "TestMultiZoneBlockConfigs": "reads Go variables of the server",
    "TestReloadTwoServerBlocksUnreadyPlugin": "adds a plugin written in Go",
    "TestReloadUnreadyPlugin": "adds a plugin written in Go",
}
