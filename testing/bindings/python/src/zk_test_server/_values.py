"""Values of the control protocol, and their checks."""

from __future__ import annotations

import base64
import enum
import math
from typing import Any, Optional, Protocol, Tuple, Union

from .errors import NoSuchSession


class KazooClient(Protocol):
    """The part of `kazoo.client.KazooClient` that tells its session."""

    @property
    def client_id(self) -> Optional[Tuple[int, bytes]]:
        """The id and the password of the session."""



class All(enum.Enum):
    """The type of `ALL`."""

    ALL = "all"

    def __repr__(self) -> str:
        return self.name


#: Every member of an ensemble, or every session. `None` is neither: an ensemble without a leader
#: has `leader` None, and `stop(None)` must not stop all of its members.
ALL = All.ALL

#: The number of a member, from 0, or `ALL`.
MemberLike = Union[int, All]

# A session: a connected kazoo client, or its id, which may be negative as in kazoo.
SessionLike = Union[int, KazooClient]

_MAX_MILLIS = 2**32 - 1


def session_text(session: SessionLike, call: str) -> str:
    """Returns the hexadecimal form of a session.

    Raises:
        NoSuchSession: the client has no session yet.
        TypeError, ValueError: it is neither a client nor an integer of 64 bits.
    """
    if not isinstance(session, int):
        try:
            identity = session.client_id
        except AttributeError:
            kind = type(session).__name__
            raise TypeError(
                f"{call}: wants a kazoo client or the id of a session, not {kind}"
            ) from None
        if identity is None or identity[0] in (None, 0):
            raise NoSuchSession(f"{call}: the client has no session yet", call=call)
        session = identity[0]
    if not -(2**63) <= session < 2**64:
        raise ValueError(f"{call}: {session} is not a session id of 64 bits")
    return hex(session % 2**64)


def session_id(text: str) -> int:
    """Returns a session id as kazoo has it, as a signed integer of 64 bits."""
    value = int(text, 16)
    return value - 2**64 if value >= 2**63 else value


def millis(seconds: float, call: str) -> int:
    """Returns a duration in milliseconds, rounded up.

    Raises:
        ValueError: it is negative, not finite, or more than 2**32 - 1 ms, which is 49 days.
    """
    if not (math.isfinite(seconds) and 0 <= seconds * 1000 <= _MAX_MILLIS):
        raise ValueError(f"{call}: {seconds!r} is not a duration from 0 to 4294967.295 seconds")
    # 0.1 + 0.2 seconds are 300 ms, not 301.
    return math.ceil(round(seconds * 1000, 6))


def data_of(text: Optional[str]) -> Optional[bytes]:
    """Returns the data of a node; None if the node has none."""
    return None if text is None else base64.b64decode(text)


def unless_none(value: Any) -> Any:
    """Returns a parameter whose default is None as one whose default is `ALL`."""
    return ALL if value is None else value


def given(**parameters: Any) -> "dict[str, Any]":
    """Returns the parameters but those that are `ALL`. The program refuses None."""
    return {name: value for name, value in parameters.items() if value is not ALL}
