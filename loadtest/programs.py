"""Finds the programs that can be measured on this machine, reports missing ones, and compiles those in C.

Path: the command line of a benchmark -> here -> the server and the generators that it starts.
Rule: other servers are searched on PATH and in /usr/sbin; CoreDNS may also be named by HSDNS_PEER.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError

ROOT: Final = Path(__file__).resolve().parents[1]
_SEARCH: Final = os.pathsep.join(
    (os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin")
)
_TIMEOUT = 30.0
_COMPILE_TIMEOUT = 60.0

# Names of the programs: (key, title, program on PATH, arguments that print its version).
ECHO: Final = "echo"
NATIVE: Final = "hsdns"
PURE: Final = "hsdns-pure"
TWO: Final = "hsdns-2"
DICT: Final = "dict"
COREDNS: Final = "coredns"
KNOT: Final = "knot"
NSD: Final = "nsd"
UNBOUND: Final = "unbound"
HSDNS: Final = "hsdns"
PEER: Final = "CoreDNS"
PEERS: Final = {
    KNOT: ("Knot DNS", "knotd", ("--version",)),
    NSD: ("NSD", "nsd", ("-v",)),
    UNBOUND: ("Unbound", "unbound", ("-V",)),
    COREDNS: (PEER, "coredns", ("-version",)),
}
TITLES: Final = {
    ECHO: "C echo",
    NATIVE: "hsdns, compiled",
    PURE: "hsdns, pure Python",
    TWO: "hsdns, two workers",
    DICT: "uvloop dict, 40 lines",
    **{key: title for key, (title, _, _) in PEERS.items()},
}


def configuration(name: str, **words: object) -> str:
    """A file of configurations/, with its {words} filled in; {{ and }} are braces."""
    return (ROOT / "loadtest" / "configurations" / name).read_text().format(**words)


class Program(NamedTuple):
    """A server under test; `words` is its command without the configuration."""

    key: str
    words: tuple[str, ...]
    version: str

    @property
    def title(self) -> str:
        """Its name in tables."""
        return TITLES[self.key]

    @property
    def name(self) -> str:
        """Its name where it does not matter how hsdns is built."""
        return HSDNS if self.key in (NATIVE, PURE) else self.title

    @property
    def environ(self) -> dict[str, str]:
        """What its environment has in addition."""
        uses = {NATIVE: "", TWO: "", PURE: "1"}
        return {"HSDNS_NO_EXTENSIONS": uses[self.key]} if self.key in uses else {}


class FoundPrograms(NamedTuple):
    """Servers in the order of the tables, the load generator, and messages about missing programs."""

    programs: list[Program]
    dnsperf: str | None
    missing: list[str]


def find_programs(names: Sequence[str], hsdns: Sequence[str]) -> FoundPrograms:
    """Find those of the named servers that can be measured; `hsdns` is the command that starts hsdns."""
    programs: list[Program] = []
    missing: list[str] = []
    for key in (each for each in TITLES if each in names):
        program = _find(key, tuple(hsdns))
        if isinstance(program, Program):
            programs.append(program)
        else:
            missing.append(program)
    dnsperf = which("dnsperf")
    if dnsperf is None:
        missing.append(
            "dnsperf is not installed: only the drain method is used, without latencies and TCP"
        )
    return FoundPrograms(programs, dnsperf, missing)


def hsdns_and_coredns(hsdns: str | None) -> list[Program]:
    """hsdns, compiled if it can be, and CoreDNS if it is found; raise BenchmarkError if HSDNS_PEER is no program."""
    found = find_programs((NATIVE, PURE, COREDNS), (hsdns,) if hsdns else hsdns_command())
    wrong = [each for each in found.missing if "HSDNS_PEER" in each]
    if wrong:
        raise BenchmarkError(wrong[0])
    ours = [each for each in found.programs if each.key != COREDNS][:1]
    return ours + [each for each in found.programs if each.key == COREDNS]


def _find(key: str, hsdns: tuple[str, ...]) -> Program | str:
    title = TITLES[key]
    if key == ECHO:
        compiler = _compiler()
        if compiler is None:
            return f"{title}: there is no C compiler (cc), so there is no limit to compare with"
        return Program(key, (compiler,), _version((compiler, "--version")))
    if key == DICT:
        words = (sys.executable, "-c", "import uvloop; print('uvloop', uvloop.__version__)")
        try:
            return Program(key, words[:1], _version(words))
        except BenchmarkError:
            return f"{title}: uvloop is not installed"
    if key in (NATIVE, PURE, TWO):
        twin = implementation(hsdns, native=key != PURE)
        if key != PURE and twin != "rust":
            return f"{title}: the extension is not built ({twin}); pip install . with a Rust toolchain builds it"
        workers = ("-workers", "2") if key == TWO else ()
        return Program(
            key, (*hsdns, *workers), f"{_version((*hsdns, '-version'))}, fast path: {twin}"
        )
    named = os.environ.get("HSDNS_PEER") if key == COREDNS else None
    path = shutil.which(named) if named else which(PEERS[key][1])
    if path is None:
        wrong = f"HSDNS_PEER is {named}, which is no program" if named else ""
        return f"{title}: {wrong or f'{PEERS[key][1]} is not on PATH'}"
    return Program(key, (path,), _version((path, *PEERS[key][2])))


def which(program: str) -> str | None:
    """Find a program, also in the folders for servers."""
    return shutil.which(program, path=_SEARCH)


def _compiler() -> str | None:
    return which("cc") or which("gcc") or which("clang")


def compile_c(source: Path, folder: Path, *options: str) -> Path:
    """Compile a C program of a benchmark into a folder, and return its path; raise BenchmarkError."""
    compiler, program = _compiler(), folder / source.stem
    if compiler is None:
        raise BenchmarkError(f"there is no C compiler (cc), which {source.name} is compiled with")
    words = (compiler, "-O2", *options, "-o", str(program), str(source))
    done = subprocess.run(words, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT, check=False)  # fmt: skip
    if done.returncode != 0:
        raise BenchmarkError(f"{source} does not compile: {done.stderr[-500:]}")
    return program


def implementation(hsdns: Sequence[str], *, native: bool) -> str:
    """The fast path implementation in use: rust, python, or none if there is no answer table.

    "unknown" if the command is not a Python program.
    """
    python = hsdns[0] if len(hsdns) > 1 else _interpreter(Path(hsdns[0]))
    if python is None:
        return "unknown"
    code = "import hsdns.fastpath as f; print(f.IMPLEMENTATION)"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=_TIMEOUT, cwd=ROOT,
        env={**os.environ, "HSDNS_NO_EXTENSIONS": "" if native else "1"}, check=False,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else "none"


def _interpreter(script: Path) -> str | None:
    """The Python interpreter of a script that pip installed, from its first line."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    return words[0].decode() if words and b"python" in words[0] else None


def _version(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"{' '.join(words)} does not work: {error}") from None
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    if done.returncode != 0 and not lines:
        raise BenchmarkError(f"{' '.join(words)} ended with status {done.returncode}")
    return lines[0].strip() if lines else "version unknown"


def hsdns_command() -> tuple[str, ...]:
    """The command that starts hsdns: the script next to this Python, otherwise the module."""
    beside = Path(sys.executable).with_name("hsdns")
    return (str(beside),) if beside.is_file() else (sys.executable, "-m", "hsdns")
