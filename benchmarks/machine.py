"""One line that says where and when a table was made."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path


def machine() -> str:
    """Date, processor, cores, Python and the libraries that matter."""
    libraries = ", ".join(f"{name} {_version(name)}" for name in ("websockets", "uvloop", "orjson"))
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{today}, {_processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, {libraries}"
    )


def _processor() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in told.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
