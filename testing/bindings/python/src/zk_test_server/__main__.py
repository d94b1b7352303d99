"""Runs the program `zk-test-server` with the arguments of the command line."""

from __future__ import annotations

import os
import subprocess
import sys

from ._binary import find_binary
from .errors import BinaryNotFound


def main() -> int:
    """Runs the program. Returns its exit code where it cannot replace this process."""
    try:
        binary = find_binary()
    except BinaryNotFound as error:
        print(f"zk_test_server: {error}", file=sys.stderr)
        return 2
    arguments = [binary, *sys.argv[1:]]
    if sys.platform == "win32":
        return subprocess.run(arguments).returncode
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(binary, arguments)


if __name__ == "__main__":
    sys.exit(main())
