"""Assemble the root file system of the image: an interpreter, its dependencies, hsdns, and nothing else.

    python deploy/image/assemble.py [--final] [--kubeconfig yes] FOLDER

Path: the Dockerfile's build stage, and tests/deploy/test_image.py -> here -> FOLDER.
Rule 1: copies the interpreter that runs this script, with the packages that it would import.
Rule 2: shared libraries all go to the folder of libc.  An interpreter with a file capability runs in the
        loader's secure mode, which ignores $ORIGIN and LD_LIBRARY_PATH and uses the system's folders only.
Rule 3: the library that reads kubeconfigs is left out unless it is asked for: in a pod there is a service account.
Rule 4: the extras of plugins are there, since a Corefile may have any of them.
Rule 5: `hsdns top` draws with rich, which is there without the packages that rich itself needs for other things.
Rule 6: the image writes nothing when it runs, so with `--final` bytecode is compiled here and never checked again.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.metadata
import importlib.util
import py_compile
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PYPROJECT: Final = HERE.parents[1] / "pyproject.toml"
USER: Final = 65532  # the user ID of "nonroot" in distroless images
VERSION: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}"

# From the standard library: modules for screens, terminals, databases, packaging and tests.
WITHOUT: Final = frozenset(
    "test tests idlelib tkinter turtledemo turtle.py ensurepip lib2to3 venv pydoc_data distutils msilib sqlite3 curses "
    "dbm site-packages dist-packages __phello__ EXTERNALLY-MANAGED sitecustomize.py".split()
)
WITHOUT_MODULES: Final = re.compile(
    r"(_tkinter|_curses(_panel)?|_dbm|_gdbm|_sqlite3|readline|nis|_?xx\w+|_test\w+|_ctypes_test)\."
)
# From the packages: sources of compiled modules, tests, and API models that hsdns does not import.
WITHOUT_FILES: Final = re.compile(
    r"\.(pyx|pxd|pxi|pyi|c|h|cc|hash)$|_test\.py$|/tests?/"
    r"|^kubernetes_asyncio/(client|dynamic|stream|watch|leaderelection|e2e_test)/"
)
# What reads a kubeconfig; the packages that only it needs are left out with it.
OF_KUBECONFIGS: Final = "kubernetes-asyncio"
# The extras of plugins, and what is needed only to build what they need.
EXTRAS: Final = ("dnssec", "geoip")
NOT_OF_EXTRAS: Final = frozenset({"pycparser"})
# What rich, with which `hsdns top` draws, needs to highlight code and to read Markdown: four times its size.
NOT_OF_TOP: Final = frozenset({"pygments", "markdown-it-py"})

PASSWD: Final = f"root:x:0:0:root:/:/none\nnonroot:x:{USER}:{USER}:nonroot:/:/none\n"
GROUP: Final = f"root:x:0:\nnonroot:x:{USER}:\n"


class CannotAssemble(Exception):
    """A file that the image needs is missing; the message says what to do."""


def assemble(root: Path, *, final: bool = False, kubeconfig: bool = False) -> None:
    """Fill an empty folder; raise CannotAssemble."""
    library = root / "usr/lib" / VERSION
    interpreter = root / "usr/bin/python3"
    interpreter.parent.mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), interpreter)
    copy_standard_library(library)
    # Debian's interpreter uses a different folder from all others.
    packages = library / ("dist-packages" if is_debians() else "site-packages")
    copy_packages(packages, kubeconfig=kubeconfig)
    copy_shared_libraries(root)
    write_etc(root)
    shutil.copy2(HERE / "coredns", root / "coredns")
    (root / "usr/bin/hsdns").symlink_to("/coredns")
    if final:
        strip(root)
        compile_all(library)
    run(
        "setcap", "cap_net_bind_service=p", str(interpreter)
    )  # last: writing to a file takes it away


def is_debians() -> bool:
    """Whether the interpreter comes from a Debian package."""
    return "deb_system" in sysconfig.get_scheme_names()


def copy_standard_library(library: Path) -> None:
    """Copy it without WITHOUT, compiled modules included."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name in WITHOUT or name.startswith("config-") or WITHOUT_MODULES.match(name)
        ]

    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=left_out)
    # In a virtual environment sysconfig does not know the folder of the compiled modules; sys.path does.
    (compiled,) = (Path(folder) for folder in sys.path if folder.endswith("/lib-dynload"))
    shutil.copytree(compiled, library / "lib-dynload", ignore=left_out, dirs_exist_ok=True)


def copy_packages(folder: Path, *, kubeconfig: bool) -> None:
    """Copy hsdns and its dependencies."""
    found = importlib.util.find_spec("hsdns")
    if found is None or found.origin is None:
        raise CannotAssemble("this interpreter does not find hsdns; install it, or set PYTHONPATH")
    shutil.copytree(
        Path(found.origin).parent, folder / "hsdns", ignore=shutil.ignore_patterns("*.pyi")
    )
    for distribution in required(kubeconfig=kubeconfig):
        if distribution.files is None:
            raise CannotAssemble(
                f"{distribution.name} has no list of its files; install it with pip"
            )
        for file in distribution.files:
            if file.parts[0] != ".." and not WITHOUT_FILES.search(file.as_posix()):
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                if (source := Path(str(file.locate()))).is_file():  # bytecode may be missing
                    shutil.copy2(source, target)


def required(*, kubeconfig: bool) -> Iterator[importlib.metadata.Distribution]:
    """The dependencies of hsdns and `hsdns top`, including indirect ones; raise CannotAssemble if one is missing."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    waiting: list[str] = [*project["dependencies"]]
    for each in EXTRAS:
        waiting += project["optional-dependencies"][each]
    seen = {*NOT_OF_TOP, *NOT_OF_EXTRAS, *([] if kubeconfig else [OF_KUBECONFIGS])}
    while waiting:
        requirement, _, marker = waiting.pop().partition(";")
        named = re.match(r"[\w.-]+(\[[\w.-]+\])?", requirement)
        assert named, requirement
        name = re.sub(r"[-_.]+", "-", named[0]).lower()
        if name in seen:
            continue
        seen.add(name)
        name, _, extra = name.strip("]").partition("[")
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if (
                marker and "extra" not in marker
            ):  # not needed on this version of Python, or it would be installed
                continue
            raise CannotAssemble(
                f"{name} is not installed; requirements/run.txt or extras.txt lists it"
            ) from None
        yield distribution
        waiting += (
            each
            for each in distribution.requires or []
            if "extra ==" not in each or (extra and f"extra == '{extra}'" in each)
        )


def copy_shared_libraries(root: Path) -> None:
    """Copy the dynamic loader and the libraries of all binaries in the root."""
    found: dict[str, Path] = {}
    for program in executables(root):
        for line in run("ldd", str(program)).splitlines():
            if "not found" in line:
                raise CannotAssemble(f"{program.relative_to(root)} lacks a library: {line.strip()}")
            if named := re.search(r"(?:=> |^\s*)(/\S+) \(0x", line):
                found[Path(named[1]).name] = Path(named[1])
    libc = found.get("libc.so.6")
    if libc is None:
        raise CannotAssemble("this interpreter does not use glibc; build on a Debian image")
    for name, path in found.items():
        # The loader goes to the path that the programs name, all libraries next to libc.
        target = root / (path if name.startswith("ld-") else libc.parent / name).relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def executables(root: Path) -> Iterator[Path]:
    """The interpreter and all shared objects."""
    yield root / "usr/bin/python3"
    yield from (path for path in root.rglob("*.so*") if path.is_file() and is_elf(path))


def is_elf(path: Path) -> bool:
    """Whether a file is a program or a library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def write_etc(root: Path) -> None:
    """Write the files that libc, OpenSSL and the kubelet expect."""
    etc = root / "etc"
    (etc / "coredns").mkdir(parents=True)  # the mount point of the Corefile
    (etc / "passwd").write_text(PASSWD)
    (etc / "group").write_text(GROUP)
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    # The kubelet mounts its own; without the file, a name server would be queried for `localhost`.
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (root / "tmp").mkdir(mode=0o1777)
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    if not authorities.is_file():
        certifi = importlib.metadata.distribution("certifi")
        authorities = Path(str(certifi.locate_file("certifi/cacert.pem")))
    for path in (Path("/etc/ssl/certs/ca-certificates.crt"), openssl_cafile()):
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(authorities, target)


def openssl_cafile() -> Path:
    """The path where the OpenSSL of this interpreter looks for CA certificates."""
    return Path(ssl.get_default_verify_paths().openssl_cafile)


def strip(root: Path) -> None:
    """Strip unneeded symbols."""
    run("strip", "--strip-unneeded", *(str(path) for path in executables(root)))


def compile_all(library: Path) -> None:
    """Compile bytecode that is used without checking the source."""
    for cache in list(library.rglob("__pycache__")):
        shutil.rmtree(cache)
    inside = f"/usr/lib/{VERSION}"
    compileall.compile_dir(
        str(library),
        maxlevels=20,
        ddir=inside,
        quiet=2,
        workers=0,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def run(*words: str) -> str:
    """Run a program and return its output; raise CannotAssemble."""
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CannotAssemble(f"{words[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise CannotAssemble(f"{' '.join(words)[:200]}: {error.stderr.strip()}") from None


def main(words: Iterable[str]) -> int:
    """Read the command line, return the exit status."""
    parser = argparse.ArgumentParser(description="Assemble the root file system of the image.")
    parser.add_argument(
        "--final", action="store_true", help="strip symbols and compile all modules"
    )
    parser.add_argument(
        "--kubeconfig", choices=("yes", "no"), default="no", help="whether it reads kubeconfigs"
    )
    parser.add_argument("folder", type=Path, help="what to fill; must be empty or absent")
    found = parser.parse_args(list(words))
    if found.folder.exists() and any(found.folder.iterdir()):
        parser.error(f"{found.folder} is not empty")
    try:
        assemble(found.folder, final=found.final, kubeconfig=found.kubeconfig == "yes")
    except CannotAssemble as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
