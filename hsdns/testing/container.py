"""hsdns as a container of Testcontainers, for programs in other containers.

Path: a test -> here -> the image, which serves the manifests of a folder; rules of faults go through its control API.
Rule: it needs the package testcontainers, which hsdns itself does not need.  deploy/testcontainers has the same in Go,
      Java and JavaScript.
"""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

from hsdns import __version__
from hsdns.faults.words import Do, Words

IMAGE: Final = f"ghcr.io/hsdns/hsdns:{__version__}"
DNS, CONTROL = 53, 9160  # ports in the container
COMMAND: Final = ("serve", "-p", "53", "--control", "0.0.0.0:9160", "--source", "manifests", "/lab")


class HsdnsContainer(DockerContainer):  # type: ignore[misc]  # where it is not installed
    """A context manager: within it, the container serves the manifests of a folder, and what becomes of them.

    `dns()` and `control` are addresses on this machine; `options` are those of DockerContainer.
    """

    def __init__(
        self, manifests: str | os.PathLike[str], image: str = IMAGE, **options: Any
    ) -> None:
        super().__init__(image, **options)
        self._token = secrets.token_hex(16)
        self.with_command([*COMMAND]).with_env("HSDNS_CONTROL_TOKEN", self._token)
        self.with_volume_mapping(os.path.abspath(manifests), "/lab", "ro")
        self.with_exposed_ports(f"{DNS}/udp", f"{DNS}/tcp", CONTROL)
        self.waiting_for(HttpWaitStrategy(CONTROL, "/ready"))

    def dns(self, transport: str = "udp") -> tuple[str, int]:
        """The address and port of the DNS server over "udp" or "tcp"; each has a port of its own."""
        port: Any = f"{DNS}/{transport}"
        return self.get_container_host_ip(), int(self.get_exposed_port(port))

    def add_fault(self, rule: str | Do | Words) -> dict[str, Any]:
        """Add a rule, and return it as /v1/faults does; raise urllib.error.HTTPError, whose body says what is wrong."""
        (found,) = self._ask("POST", {}, json.dumps({"rule": str(rule)}).encode())
        return found

    def faults(self) -> list[dict[str, Any]]:
        """All rules with their hits."""
        return self._ask("GET", {})

    def remove_fault(self, name: str) -> None:
        """End a rule."""
        self._ask("DELETE", {"name": name})

    def _ask(self, method: str, query: dict[str, str], body: bytes = b"") -> list[dict[str, Any]]:
        at = f"{self.get_container_host_ip()}:{self.get_exposed_port(CONTROL)}"
        page = f"http://{at}/v1/faults?{urlencode(query)}"
        headers = {"Authorization": f"Bearer {self._token}"}
        request = Request(page, body or None, headers, method=method)
        with urlopen(request) as reply:
            return [json.loads(line) for line in reply]
