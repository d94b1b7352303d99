"""The place of the program `zk-test-server`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Iterator

from .errors import BinaryNotFound

_NAME = "zk-test-server.exe" if sys.platform == "win32" else "zk-test-server"


def _installed() -> Iterator[Path]:
    """Yields the places where an installer puts the program of this package."""
    try:
        files = metadata.files("zk-test-server") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME:
            yield Path(str(file.locate()))
    # `pip install --target` moves the program after it has written the list of files.
    yield Path(__file__).resolve().parent.parent / "bin" / _NAME
    yield Path(sysconfig.get_path("scripts")) / _NAME


def find_binary() -> str:
    """Returns the path of the program `zk-test-server`.

    The order is: the environment variable `ZK_TEST_SERVER_BIN`, the program of this package,
    `zk-test-server` in `PATH`.

    Raises:
        BinaryNotFound: no place has the program, or the variable names no file.
    """
    given = os.environ.get("ZK_TEST_SERVER_BIN")
    if given:
        if not os.path.isfile(given):
            raise BinaryNotFound(f"ZK_TEST_SERVER_BIN names {given!r}, which is not a file")
        return given
    for place in _installed():
        if place.is_file():
            return str(place)
    found = shutil.which(_NAME)
    if found is None:
        raise BinaryNotFound(
            "the program zk-test-server is neither in this package nor in PATH; "
            "ZK_TEST_SERVER_BIN can name it"
        )
    return found
