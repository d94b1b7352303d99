"""The exceptions of this package. All derive from `ZkTestServerError` and have a `code`."""

from __future__ import annotations

from typing import Optional

__all__ = [
    "BadRequest",
    "BinaryNotFound",
    "CallFailed",
    "MalformedResponse",
    "NoResponse",
    "NoSuchLag",
    "NoSuchMember",
    "NoSuchNode",
    "NoSuchRule",
    "NoSuchSession",
    "NotFound",
    "ServerEnded",
    "StartFailed",
    "Unauthorized",
    "Unsupported",
    "UnsupportedVersion",
    "WaitTimeout",
    "ZkTestServerError",
]


class ZkTestServerError(Exception):
    """A call, or the start of a server, has failed.

    `code` is the error code of the control protocol, or a code of this package for a failure
    without a response. `call` is the name of the call, or None if no call was made.
    """

    code: str = "failed"

    def __init__(
        self, message: str, *, code: Optional[str] = None, call: Optional[str] = None
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.call = call


class BadRequest(ZkTestServerError, ValueError):
    """The server has refused a parameter, and has done nothing."""

    code = "bad_request"


class Unauthorized(ZkTestServerError):
    """The server has refused the token: another process listens on its control port."""

    code = "unauthorized"


class UnsupportedVersion(ZkTestServerError):
    """The program does not speak version 1 of the control protocol."""

    code = "unsupported_version"


class NotFound(ZkTestServerError, LookupError):
    """The base of the errors about something that does not exist."""

    code = "not_found"


class NoSuchMember(NotFound):
    """The ensemble has no member of this number."""

    code = "no_such_member"


class NoSuchSession(NotFound):
    """The session has ended, or has never existed."""

    code = "no_such_session"


class NoSuchRule(NotFound):
    """The rule has been removed."""

    code = "no_such_rule"


class NoSuchLag(NotFound):
    """The lag has ended."""

    code = "no_such_lag"


class NoSuchNode(NotFound):
    """The node does not exist."""

    code = "no_such_node"


class Unsupported(ZkTestServerError):
    """The program cannot do this, for example `change_leader` on a single server."""

    code = "unsupported"


class WaitTimeout(ZkTestServerError, TimeoutError):
    """The condition did not become true in time. The message has the state of the server."""

    code = "timeout"


class CallFailed(ZkTestServerError):
    """The call has failed for another reason, such as a port in use."""

    code = "failed"


class BinaryNotFound(ZkTestServerError, FileNotFoundError):
    """The program `zk-test-server` is not installed."""

    code = "binary_not_found"


class StartFailed(ZkTestServerError):
    """The program ended before it was ready, or was not ready in time."""

    code = "start_failed"


class ServerEnded(ZkTestServerError, ConnectionError):
    """The program has ended, or `close` was called. The message has its exit code."""

    code = "server_ended"


class NoResponse(ZkTestServerError, TimeoutError):
    """The program has not answered a call in time. The call may have been carried out."""

    code = "no_response"


class MalformedResponse(ZkTestServerError):
    """The program has answered something that is not a response of the control protocol."""

    code = "malformed_response"


_BY_CODE = {
    error.code: error
    for error in (
        BadRequest,
        Unauthorized,
        UnsupportedVersion,
        NoSuchMember,
        NoSuchSession,
        NoSuchRule,
        NoSuchLag,
        NoSuchNode,
        Unsupported,
        WaitTimeout,
        CallFailed,
    )
}


def error_of(code: str, message: str, call: str) -> ZkTestServerError:
    """Returns the exception of an error code. A code of a later version gets the base class."""
    return _BY_CODE.get(code, ZkTestServerError)(message, code=code, call=call)
