"""What holds for every test."""

import os

import pytest
from hypothesis import HealthCheck, settings

# No test fails because the machine is busy: an example may take any time, and so may making one.
# The same examples each time in CI, so that a red run can be seen again; new ones each time at a desk.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", UNHURRIED)
settings.register_profile("ci", UNHURRIED, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(autouse=True)
def _outside_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as on a desk, also where the tests themselves run in a pod."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HSDNS_CHECK_STORE"):
        monkeypatch.delenv(name, raising=False)
