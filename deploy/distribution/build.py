"""Build what is published, as far as one machine can, and check it as its users would install it.

    python deploy/distribution/build.py [FOLDER]

Path: `make dist`, the release workflow -> here -> setup.py -> FOLDER (dist/), new environments, `hsdns serve`.
Rule 1: wheels are built from the sdist, so an sdist that lacks a file builds none.
Rule 2: the wheel without the compiled fast path is always built; the other one where there is cargo, for this machine
        only: wheels for other systems, which claim manylinux and musllinux, are built by the release workflow.
Rule 3: each wheel is installed for each Python, with the pinned packages, into an environment that has nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import dns.message
import dns.rcode

ROOT: Final = Path(__file__).resolve().parents[2]
PINS: Final = ROOT / "requirements/run.txt"
SUPPORTED: Final = re.compile(r"Programming Language :: Python :: (\d+)\.(\d+)$")
TIMEOUT: Final = 30.0  # seconds for a server to start, and for an answer
NAME: Final = "consul-server-0.consul-server.default.svc.cluster.local."  # of the demo cluster
LIBRARY: Final = re.compile(r"hsdns/fastpath/_native\S*\.so$")
PURE: Final = re.compile(r"hsdns_server-\S+-py3-none-any\.whl")
COMPILED: Final = re.compile(
    r"hsdns_server-\S+-cp311-abi3-(linux|manylinux|musllinux|macosx)\w+\.whl"
)
# A link whose target is neither absolute nor on the page itself.
RELATIVE_LINK: Final = re.compile(r"\]\((?!https?://|#)[^)]*\)")


class Fault(Exception):
    """Something that is built is not what it should be; the message says what."""


def build(folder: Path) -> list[Path]:
    """Make the sdist and the wheels that this machine can build; return the wheels; raise Fault."""
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", code)
    (sdist,) = folder.glob("*.tar.gz")
    check_sdist(sdist)
    wheels = [build_wheel(sdist, folder, {"HSDNS_NO_EXTENSIONS": "1"})]
    if os.environ.get("HSDNS_NO_EXTENSIONS") != "1" and shutil.which("cargo"):
        target = {"CARGO_TARGET_DIR": str(ROOT / "native/target")}
        wheels.append(build_wheel(sdist, folder, {"HSDNS_REQUIRE_EXTENSIONS": "1", **target}))
    else:
        say("no wheel with the compiled fast path is built: there is no cargo, or it is not wanted")
    return wheels


def build_wheel(sdist: Path, folder: Path, environ: Mapping[str, str]) -> Path:
    """Make a wheel of the sdist and check it; raise Fault."""
    before = set(folder.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "--no-cache-dir", "--wheel-dir", str(folder), str(sdist), environ=environ)
    (wheel,) = set(folder.glob("*.whl")) - before
    check_wheel(wheel, compiled="HSDNS_REQUIRE_EXTENSIONS" in environ)
    return wheel


def check_sdist(sdist: Path) -> None:
    """Raise Fault if it holds tests, or not what both wheels are built of."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {under_root(path) for path in (ROOT / "native/src").rglob("*.rs")}
    expected |= {under_root(path) for path in (ROOT / "hsdns").rglob("*.py")}
    expected |= {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "setup.py"}
    expected |= {"native/Cargo.toml", "native/Cargo.lock"}
    if missing := expected - names:
        raise Fault(
            f"{sdist.name} lacks {', '.join(sorted(missing))}; MANIFEST.in says what it holds"
        )
    if tests := [name for name in names if name.startswith("tests/") or name.endswith(".so")]:
        raise Fault(
            f"{sdist.name} holds {', '.join(sorted(tests))}; MANIFEST.in says what it holds"
        )


def check_wheel(wheel: Path, *, compiled: bool) -> None:
    """Raise Fault if its name claims what it does not hold, or its text has links into nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    holds = any(LIBRARY.match(name) for name in names)
    if holds != compiled:
        raise Fault(f"{wheel.name} {'holds' if holds else 'lacks'} the compiled fast path")
    if not (COMPILED if compiled else PURE).fullmatch(wheel.name):
        raise Fault(f"the name {wheel.name} does not say what it holds")
    if foreign := [
        name for name in names if not re.match(r"hsdns(/|_server-\S+\.dist-info/)", name)
    ]:
        raise Fault(f"{wheel.name} also holds {', '.join(foreign)}")
    if links := RELATIVE_LINK.findall(text):
        raise Fault(f"{wheel.name}: its description links to {', '.join(links)}")


def pythons(path: str, home: Path) -> dict[tuple[int, int], str]:
    """The Pythons that pyproject.toml names, by version: the first of each on PATH, then those of pyenv."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = filter(None, map(SUPPORTED.match, project["classifiers"]))
    supported = {(int(match[1]), int(match[2])) for match in matches}
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    folders += sorted(home.glob(".pyenv/versions/*/bin"), reverse=True)
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for program in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", program.name):
                version = version_of(program)
                if version in supported:
                    found.setdefault(version, str(program))
    return dict(sorted(found.items()))


def version_of(program: Path) -> tuple[int, int] | None:
    """The version of a Python that can make environments; None for anything else."""
    code = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        said = subprocess.run(
            [program, "-c", code], check=True, capture_output=True, text=True, timeout=TIMEOUT
        )
        major, minor = said.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def check_installed(program: str, wheels: Iterable[Path], folder: Path) -> None:
    """Install each wheel for this Python into a new environment and let it answer; raise Fault."""
    run(program, "-m", "venv", "--without-pip", str(folder))
    pip = [sys.executable, "-m", "pip", f"--python={folder}/bin/python"]
    run(*pip, "install", "--quiet", "--require-hashes", "-r", str(PINS))
    for wheel in wheels:
        run(*pip, "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
        run(*pip, "check")
        twin = "rust" if COMPILED.fullmatch(wheel.name) else "python"
        check_answers(folder / "bin/hsdns", twin)


def check_answers(program: Path, twin: str) -> None:
    """Serve the demo cluster, ask for a name, and end; raise Fault."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(TIMEOUT)
        client.bind(("127.0.0.1", 0))
        port = free_port()
        command = [str(program), "serve", "--dns.port", str(port)]
        with subprocess.Popen(
            command, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment({})
        ) as server:
            try:
                said = until(server, b"Ctrl-C")
                if f"fast path: {twin}" not in said:
                    raise Fault(f"{program} does not serve with the fast path of {twin}:\n{said}")
                client.sendto(dns.message.make_query(NAME, "A").to_wire(), ("127.0.0.1", port))
                reply = dns.message.from_wire(client.recv(4096))
            except TimeoutError:
                raise Fault(f"{program} does not answer within {TIMEOUT:g} s") from None
            finally:
                server.terminate()
    if reply.rcode() != dns.rcode.NOERROR or len(reply.answer) != 1 or server.returncode != 0:
        raise Fault(f"{program} ended with status {server.returncode} and this answer:\n{reply}")


def until(server: subprocess.Popen[bytes], end: bytes) -> str:
    """What a server prints up to these words, or until it ends; raise TimeoutError."""
    assert server.stdout is not None
    printed = b""
    with selectors.DefaultSelector() as selector:
        selector.register(server.stdout, selectors.EVENT_READ)
        while end not in printed:
            if not selector.select(TIMEOUT):
                raise TimeoutError
            octets = os.read(server.stdout.fileno(), 65536)
            if not octets:
                break
            printed += octets
    return printed.decode("utf-8", "replace")


def free_port() -> int:
    """A port that is free for UDP and TCP at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without what changes where packages come from or which twin runs."""
    without = ("PYTHON", "HSDNS_", "KUBERNETES_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    return kept | dict(more)


def run(*words: str, environ: Mapping[str, str] | None = None) -> None:
    """Run a program in the root of the repository; raise Fault with what it said."""
    found = subprocess.run(
        words, check=False, cwd=ROOT, text=True, env=environment(environ or {}),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if found.returncode:
        raise Fault(
            f"{' '.join(words)[:200]} ended with status {found.returncode}:\n{found.stdout}"
        )


def under_root(path: Path) -> str:
    """A path as the archives name it."""
    return path.relative_to(ROOT).as_posix()


def say(sentence: str) -> None:
    """Tell the packager what happens."""
    sys.stdout.write(f"dist: {sentence}\n")
    sys.stdout.flush()


def publish(folder: Path) -> Iterator[str]:
    """Build, check, and only then replace what is in the folder; yield a sentence for each step; raise Fault."""
    found = pythons(os.environ.get("PATH", ""), Path.home())
    if not found:
        raise Fault("no Python that pyproject.toml names, with its module venv, is on PATH")
    with tempfile.TemporaryDirectory(prefix="hsdns-dist-") as scratch:
        new = Path(scratch, "new")
        new.mkdir()
        wheels = build(new)
        for (major, minor), program in found.items():
            check_installed(program, wheels, Path(scratch, f"{major}.{minor}"))
            yield f"Python {major}.{minor} installs each wheel, and serves with it ({program})"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(new, folder)
    for path in sorted(folder.iterdir()):
        yield f"{folder.name}/{path.name}, {path.stat().st_size // 1000} kB"


def main(words: Iterable[str]) -> int:
    """Read the command line, return the exit status."""
    parser = argparse.ArgumentParser(description="Build the sdist and the wheels, and check them.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist", help="what to fill")
    found = parser.parse_args(list(words))
    try:
        for sentence in publish(found.folder):
            say(sentence)
    except Fault as fault:
        sys.stderr.write(f"dist: {fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
