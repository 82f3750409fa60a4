"""Which modules are there when the first requests of the watches are sent: only what connects.

Whatever else is imported before delays them, so a module in this list is a decision (docs/decisions/0031).
"""

import subprocess
import sys

# Packages beside hsdns and the standard library.
PACKAGES = {"_distutils_hack", "httptools", "msgspec", "typing_extensions", "uvloop"}
HSDNS = {
    "colours errors limits memory metrics",
    "apiserver apiserver.access apiserver.client apiserver.connections apiserver.redaction apiserver.resource",
    "apiserver.transport",
    "cli cli.command cli.control_path cli.coredns cli.launch",
    "cluster cluster.objects",
    "corefile corefile.keys corefile.lexer corefile.parser corefile.properties corefile.tree",
    "plugins",
    "server server.query_log server.watch_thread",
    "sources sources.ahead sources.api_access",
    "turns wire wire.name",
}
CODE = """
import os
import sys
from hsdns.cli import main
from hsdns.sources.ahead import Ahead

def send(self, wanted):
    assert wanted
    os.write(1, " ".join(sys.modules).encode())
    os._exit(0)

Ahead.send = send
main(["--conf", "stdin"])
"""
COREFILE = (
    ". {\nerrors\nkubernetes {\nendpoint http://127.0.0.1:1\n}\nforward . 127.0.0.1\ncache\n}\n"
)


def test_before_the_watches_are_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], input=COREFILE, capture_output=True, text=True, check=True
    )
    names = set(done.stdout.split())
    found = {name.removeprefix("hsdns.") for name in names if name.startswith("hsdns.")}
    assert found == {name for line in HSDNS for name in line.split()}
    beside = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    beside -= {"hsdns", "sitecustomize", "usercustomize"}
    # What compiled modules leave behind, and what an editable install does, is no package.
    assert {name for name in beside if "cython" not in name and name[:2] != "__"} <= PACKAGES
    assert not {"aiohttp", "yaml", "kubernetes_asyncio", "rich"} & names
