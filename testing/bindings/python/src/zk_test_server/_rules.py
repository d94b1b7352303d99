"""Fault rules, and faults that last until they are ended."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Dict, Literal, Optional, Protocol, Sequence, Type, Union

from ._values import ALL, All, MemberLike, SessionLike, millis, session_text, unless_none
from .errors import NoSuchRule, ServerEnded

__all__ = ["Delay", "Fault", "Operation", "Refuse", "Rule", "Verdict"]

#: An operation of a client, for rules. `create` is of any mode.
Operation = Literal[
    "create",
    "delete",
    "exists",
    "get_data",
    "set_data",
    "get_acl",
    "set_acl",
    "get_children",
    "sync",
    "check",
    "multi",
    "multi_read",
    "add_watch",
    "remove_watches",
    "check_watches",
    "set_watches",
    "auth",
    "sasl",
    "ping",
    "close_session",
    "reconfig",
    "who_am_i",
    "get_ephemerals",
    "get_all_children_number",
]


@dataclass(frozen=True)
class Delay:
    """The verdict that lets a request, and all after it on its connection, arrive later."""

    seconds: float


@dataclass(frozen=True)
class Refuse:
    """The verdict that answers a request with an error.

    The error is a name such as `"connection_loss"`, `"no_node"` or `"throttled"`, or a code of
    ZooKeeper such as -112.
    """

    error: Union[str, int]


#: The effect of a rule, see `TestServer.add_rule`.
Verdict = Union[Literal["lose_reply", "lose_request", "disconnect"], Delay, Refuse]


def verdict_json(verdict: Verdict) -> Union[str, Dict[str, Any]]:
    """Returns the form of a verdict in the control protocol."""
    if isinstance(verdict, Delay):
        return {"delay_ms": millis(verdict.seconds, "add_rule")}
    if isinstance(verdict, Refuse):
        return {"refuse": verdict.error}
    return verdict


def rule_parameters(
    verdict: Verdict,
    operation: Union[Operation, Sequence[Operation], None],
    path: Optional[str],
    under: Optional[str],
    session: Union[SessionLike, All],
    member: MemberLike,
    after: int,
    times: Optional[int],
    name: Optional[str],
) -> Dict[str, Any]:
    """Returns the parameters of `add_rule`."""
    if isinstance(operation, (list, tuple)):
        operation = list(operation)
    return {
        "verdict": verdict_json(verdict),
        "operation": unless_none(operation),
        "path": unless_none(path),
        "under": unless_none(under),
        "session": ALL if isinstance(session, All) else session_text(session, "add_rule"),
        "member": member,
        "after": after,
        "times": unless_none(times),
        "name": unless_none(name),
    }


class Fault:
    """A fault that lasts until `end` is called, or until the end of its `with` block.

    The fault has begun when the method that returns it returns: `with` is not needed to begin it.
    """

    def __init__(self, end: Callable[[], object]) -> None:
        self._end: Optional[Callable[[], object]] = end

    def end(self) -> None:
        """Ends the fault. A second call has no effect."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.end()
        except ServerEnded:
            # A server that was closed inside the block has no faults. If it ended by itself, the
            # next call reports that.
            pass


class _Server(Protocol):
    """The server that has a rule."""

    def _call(self, call: str, **parameters: Any) -> Any: ...

    def _until(self, condition: Dict[str, Any], timeout: float) -> float: ...


class Rule:
    """An installed rule. It is active until `remove`, or until the end of its `with` block.

    The rule is active when `TestServer.add_rule` returns: `with` is not needed to activate it.
    """

    def __init__(self, server: _Server, name: str) -> None:
        self._server = server
        self._removed: Optional[int] = None
        #: The name of the rule.
        self.name = name

    @property
    def hits(self) -> int:
        """The number of times that the rule has fired. Stays readable after `remove`.

        Raises:
            NoSuchRule: the rule was removed by `reset` or `remove_rules`.
        """
        if self._removed is not None:
            return self._removed
        hits: int = self._server._call("rule", rule=self.name)["hits"]
        return hits

    def until_hit(self, hits: int = 1, *, timeout: float = 30.0) -> float:
        """Waits until the rule has fired at least `hits` times. Returns the seconds waited.

        Raises:
            WaitTimeout: it has not within `timeout` seconds.
            NoSuchRule: the rule was removed.
        """
        return self._server._until({"rule": self.name, "hits": hits}, timeout)

    def remove(self) -> int:
        """Removes the rule, and returns its hits. A second call only returns them.

        Raises:
            NoSuchRule: the rule was removed by `reset` or `remove_rules`.
        """
        if self._removed is None:
            self._removed = self._server._call("remove_rule", rule=self.name)["hits"]
        return self._removed

    def __enter__(self) -> "Rule":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.remove()
        except (NoSuchRule, ServerEnded):
            pass

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"
