"""What pyproject.toml allows, and what requirements/*.txt pin: nothing older than the fix of a published advisory."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# The first version without a known advisory.  The last six come with others, so that only the pins hold them.
FIXED = {
    "aiohttp": "3.14.4",  # CVE-2026-59881, CVE-2026-69243, CVE-2026-69244
    "dnspython": "2.6.1",  # CVE-2023-29483
    "h2": "4.4.1",  # CVE-2025-57804, CVE-2026-71554
    "hpack": "4.2.0",  # GHSA-8v8h-hg4w-mvq2
    "httptools": "0.6.3",  # CVE-2024-27982
    "mkdocs-material": "9.5.32",  # GHSA-5p8w-2mvw-38pv
    "pytest": "9.0.3",  # CVE-2025-71176
    "pyyaml": "5.4",  # CVE-2020-14343
    "setuptools": "83",  # CVE-2025-47273, CVE-2026-59890
    "uvloop": "0.20",  # CVE-2024-24806
    "certifi": "2024.7.4",  # CVE-2024-39689
    "idna": "3.15",  # CVE-2026-45409
    "jinja2": "3.1.6",  # CVE-2025-27516
    "pygments": "2.20.0",  # CVE-2026-4539
    "requests": "2.33.0",  # CVE-2026-25645
    "urllib3": "2.7.0",  # CVE-2026-44432
}


def version(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def lowest() -> dict[str, set[str]]:
    """Each package that pyproject.toml names, with all its lower bounds."""
    groups = PROJECT["dependency-groups"].values()
    listed = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(each for group in groups for each in group if isinstance(each, str)),
    ]
    found: dict[str, set[str]] = {}
    for each in listed:
        if named := re.match(r"([\w.-]+?)>=([\d.]+)", each):
            found.setdefault(named[1].lower(), set()).add(named[2])
    return found


@pytest.mark.parametrize("package", FIXED)
def test_no_version_with_a_known_advisory(package: str) -> None:
    texts = [path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))]
    pinned = re.findall(rf"^{re.escape(package)}==([\d.]+)", "\n".join(texts), re.M)
    assert pinned
    for each in {*pinned, *lowest().get(package, ())}:
        assert version(each) >= version(FIXED[package]), each


def test_a_package_has_one_lower_bound() -> None:
    assert {package for package, bounds in lowest().items() if len(bounds) > 1} == set()
