"""Scrapy's source distribution, at the pinned version and hash, unpacked; and an environment for its tests."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.standin import ROOT

HERE = Path(__file__).parent
REQUIREMENTS = (ROOT / "requirements.txt", HERE / "requirements.txt")


def pinned() -> tuple[str, list[str]]:
    """Scrapy's version in requirements.txt, and the SHA-256 of each of its files on PyPI."""
    text = REQUIREMENTS[0].read_text()
    found = re.search(r"^scrapy==(\S+) \\\n((?:\s+--hash=sha256:\w+(?: \\)?\n)+)", text, re.MULTILINE)
    if found is None:
        raise SystemExit("requirements.txt does not pin scrapy with hashes")
    return found[1], re.findall(r"sha256:(\w+)", found[2])


def unpacked(cache: Path) -> Path:
    """The directory of the source distribution, downloaded when it is not there yet."""
    version, hashes = pinned()
    directory = cache / f"scrapy-{version}"
    if directory.exists():
        return directory
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "scrapy"]
    subprocess.run([*command, "--dest", cache, f"scrapy=={version}"], check=True)
    archive = cache / f"scrapy-{version}.tar.gz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() not in hashes:
        raise SystemExit(f"{archive} is none of the files that requirements.txt pins")
    with tarfile.open(archive) as files:
        files.extractall(cache / "unpacking", filter="data")
    (cache / "unpacking" / directory.name).rename(directory)
    return directory


def environment(cache: Path) -> Path:
    """The interpreter of an environment that has what Scrapy's tests and the add-on need, and nothing else."""
    content = hashlib.sha256(b"".join(path.read_bytes() for path in REQUIREMENTS)).hexdigest()
    directory = cache / f"venv-{content[:12]}"
    python = directory / "bin" / "python"
    if not (directory / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "-r", REQUIREMENTS[0]], check=True)
        subprocess.run([*install, "--no-deps", "-r", REQUIREMENTS[1]], check=True)
        (directory / "complete").touch()
    return python
