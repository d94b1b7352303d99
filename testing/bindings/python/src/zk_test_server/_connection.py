"""Calls of the control protocol: JSON objects in lines, over TCP on this machine."""

from __future__ import annotations

import json
import os
import socket
import threading
import weakref
from typing import Any, Dict, List, Optional

from .errors import MalformedResponse, NoResponse, ServerEnded, Unauthorized, error_of

PROTOCOL_VERSION = 1
# The maximum number of idle connections that are kept. A program accepts 64 in total.
_MOST_IDLE = 4
# The maximum number of waits at the same time, and of other calls. They have separate limits, because
# a wait may last until another call ends it.
MOST_WAITS = 40
MOST_CALLS = 8


class Messages:
    """The requests and responses of one connection."""

    def __init__(self) -> None:
        self._ids = 0
        # True between a response and the next request.
        self.usable = False

    def request(self, call: str, parameters: Dict[str, Any]) -> bytes:
        """Returns the line of the next request."""
        self._ids += 1
        self.usable = False
        request = {"id": self._ids, "call": call, **parameters}
        return json.dumps(request, separators=(",", ":")).encode() + b"\n"

    def result(self, line: bytes, call: str) -> Dict[str, Any]:
        """Returns the result in a response.

        Raises:
            ZkTestServerError: by the code of the response.
            ServerEnded, MalformedResponse: the connection is unusable after it.
        """
        if not line.endswith(b"\n"):
            raise ServerEnded(f"{call}: the program has closed the connection", call=call)
        try:
            response = json.loads(line)
        except ValueError:
            response = None
        if isinstance(response, dict):
            # The program closes the connection after an error without an id.
            self.usable = response.get("id") == self._ids
            error, result = response.get("error"), response.get("ok")
            if isinstance(error, dict) and (self.usable or response.get("id") is None):
                failure = error_of(str(error.get("code")), str(error.get("message")), call)
                self.usable = self.usable and not isinstance(failure, Unauthorized)
                raise failure
            if isinstance(result, dict) and self.usable:
                return result
            self.usable = False
        start = line[:200].decode("utf-8", "replace")
        raise MalformedResponse(f"{call}: unexpected response {start!r}", call=call)


class Connection(Messages):
    """One connection. Its requests run one after another."""

    def __init__(self, port: int, token: str, timeout: float) -> None:
        super().__init__()
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        except OSError as error:
            text = f"hello: cannot connect to the program: {error}"
            raise ServerEnded(text, call="hello") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = self._socket.makefile("rb")
        try:
            self.hello = self.call(
                "hello", {"version": PROTOCOL_VERSION, "token": token}, timeout
            )
        except BaseException:
            self.close()
            raise

    def call(self, call: str, parameters: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        """Makes a call and returns its result. `timeout` is in seconds.

        Raises:
            ZkTestServerError: by the code of the response.
            ServerEnded, NoResponse, MalformedResponse: the connection is unusable after it.
        """
        line = self.request(call, parameters)
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(line)
            answer = self._received.readline()
        except socket.timeout as error:
            raise NoResponse(f"{call}: no response within {timeout:g} s", call=call) from error
        except OSError as error:
            raise ServerEnded(f"{call}: the connection is broken: {error}", call=call) from error
        return self.result(answer, call)

    def close(self) -> None:
        """Closes the connection."""
        self._received.close()
        self._socket.close()


class Connections:
    """Connections to one program, for all threads. Each call has a connection to itself."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._lock = threading.Lock()
        self._limit()
        self._idle: List[Connection] = []
        self._closed: Optional[str] = None
        #: The number of calls so far.
        self.calls = 0
        _ALL.add(self)

    def call(self, call: str, parameters: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        """Makes a call, see `Connection.call`.

        Threads do not wait for calls of other threads, unless there are `MOST_CALLS` of them, or
        `MOST_WAITS` waits. A wait never keeps another call from running.
        """
        self.start(call)
        with self._waits if call == "until" else self._others:
            connection = self._take(call, timeout)
            try:
                return connection.call(call, parameters, timeout)
            finally:
                # After a time limit or Ctrl-C, the response of this call can still arrive on this
                # connection, and must not become the response of the next call.
                self._give_back(connection)

    def start(self, call: str) -> None:
        """Counts a call. Raises `ServerEnded` after `close`."""
        self.calls += 1
        if self._closed is not None:
            raise ServerEnded(f"{call}: {self._closed}", call=call)

    def _take(self, call: str, timeout: float) -> Connection:
        with self._lock:
            if self._closed is not None:
                raise ServerEnded(f"{call}: {self._closed}", call=call)
            if self._idle:
                return self._idle.pop()
        return Connection(self._port, self._token, timeout)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            usable = connection.usable and self._closed is None
            if usable and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed is not None

    def close(self, reason: str) -> None:
        """Closes idle connections, and refuses further calls with this reason."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], reason
        for connection in idle:
            connection.close()

    def _limit(self) -> None:
        self._waits = threading.BoundedSemaphore(MOST_WAITS)
        self._others = threading.BoundedSemaphore(MOST_CALLS)

    def _forget(self) -> None:
        idle, self._idle, self._lock = self._idle, [], threading.Lock()
        self._limit()
        for connection in idle:
            connection.close()


_ALL: "weakref.WeakSet[Connections]" = weakref.WeakSet()


def _after_fork() -> None:
    # The idle connections belong to the parent process, and its threads may hold the locks.
    for connections in list(_ALL):
        connections._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
