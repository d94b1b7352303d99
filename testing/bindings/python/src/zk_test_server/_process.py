"""The process of a server: its start, its lines and its end."""

from __future__ import annotations

import io
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from typing import IO, Any, Dict, List, Optional, Sequence, cast

from .errors import StartFailed

# The time for a clean end, in seconds, before the process is terminated, and then killed.
_END_TIMEOUT = 10.0
# The time between the end of the connections of a process and its end, in seconds.
_EXIT_TIMEOUT = 2.0


class Process:
    """A running `zk-test-server`. It ends with this process, even if this one is killed."""

    def __init__(self, binary: str, options: Sequence[str], timeout: float) -> None:
        """Starts the program, and waits until it serves, for at most `timeout` seconds."""
        self.token = secrets.token_hex(16)
        self.addresses: List[str] = []
        self.control_port = 0
        self._owner = os.getpid()
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        # A file, because nobody reads a pipe while the program runs.
        self._errors = tempfile.TemporaryFile()
        command = [binary, "--control", "0", "--until-eof", *options]
        # Ctrl-C is for the tests. They end the program, or it ends with them.
        own_group: Dict[str, Any]
        if sys.platform == "win32":
            own_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        else:
            own_group = {"start_new_session": True}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "ZK_TEST_SERVER_TOKEN": self.token},
                **own_group,
            )
        except OSError as error:
            self._errors.close()
            raise StartFailed(f"start: cannot run {binary!r}: {error}") from error
        _ALL.add(self)
        assert self._process.stdout is not None
        # The program must never wait for a reader of its output.
        reader = threading.Thread(
            target=_read_lines,
            args=(self._process.stdout, self._lines),
            name=f"zk-test-server-{self._process.pid}",
            daemon=True,
        )
        reader.start()
        try:
            self._await_start(time.monotonic() + timeout, timeout)
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    def _await_start(self, deadline: float, timeout: float) -> None:
        while not self.control_port:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise StartFailed(
                    f"start: not ready within {timeout:g} s{self.last_errors()}"
                ) from None
            if line is None:
                code = self._process.wait()
                raise StartFailed(
                    f"start: the program has ended with exit code {code}{self.last_errors()}"
                )
            if line.startswith("listening on "):
                self.addresses.append(line[len("listening on ") :])
            elif line.startswith("control on "):
                self.control_port = int(line.rpartition(":")[2])

    def last_errors(self) -> str:
        """Returns the last lines of standard error for a message, with a colon before them."""
        if self._errors.closed:
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4000))
        text = self._errors.read().decode("utf-8", "replace").strip()
        return f": {text}" if text else ""

    def exit_code(self) -> Optional[int]:
        """Returns the exit code after a connection has ended; None if the program runs on."""
        if self._owner != os.getpid():
            return None
        try:
            return self._process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Ends the program. No effect in a process that was forked from the one that started it."""
        if self._owner != os.getpid():
            return
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # The program has ended, and the pipe is broken.
        for force in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_END_TIMEOUT)
                break
            except subprocess.TimeoutExpired:
                force()
        self._process.wait()
        self._errors.close()

    def _forget(self) -> None:
        # Without the buffer, whose lock a thread of the parent process may hold.
        cast(io.BufferedWriter, self._process.stdin).raw.close()


def _read_lines(output: IO[bytes], lines: "queue.Queue[Optional[str]]") -> None:
    with output:
        for line in output:
            lines.put(line.decode("utf-8", "replace").rstrip())
    lines.put(None)


_ALL: "weakref.WeakSet[Process]" = weakref.WeakSet()


def _after_fork() -> None:
    # The program ends when the last copy of this end of its standard input is closed.
    for process in list(_ALL):
        process._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
