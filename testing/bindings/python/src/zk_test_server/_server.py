"""Servers and ensembles in a process of their own."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from ._binary import find_binary
from ._connection import Connections
from ._probe import Info, JournalEntry, Probe, info_of, journal_of, probe_of
from ._process import Process
from ._rules import Fault, Operation, Rule, Verdict, rule_parameters
from ._values import (
    ALL,
    All,
    MemberLike,
    SessionLike,
    given,
    millis,
    session_id,
    session_text,
)
from .errors import MalformedResponse, ServerEnded

# The time for a response, in seconds, after the time for which the call itself waits.
RESPONSE_TIMEOUT = 30.0

_S = TypeVar("_S", bound="TestServer")
_T = TypeVar("_T")


def parsed(call: str, parse: Callable[[Dict[str, Any]], _T], result: Dict[str, Any]) -> _T:
    """Returns the result of a call in another form.

    Raises:
        MalformedResponse: it does not have this form.
    """
    try:
        return parse(result)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedResponse(f"{call}: unexpected result: {error!r}", call=call) from error


class TestServer:
    """A ZooKeeper server in memory, in a process of its own, that causes faults on demand.

    The constructor starts the program and waits until it serves. `close`, or the end of a `with`
    block, ends it. It also ends with this process, even if this process is killed.

    Methods can be called from any thread, and from processes that were forked from this one.
    Durations are in seconds. Faults that last return a `Fault`, which ends them.

    `member` is for ensembles, see `TestCluster`. A single server is member 0. The default `ALL` is
    every member; None is a `BadRequest`, because an ensemble without a leader has `leader` None.
    """

    # pytest does not collect this class.
    __test__ = False

    def __init__(
        self,
        *,
        tick: float = 0.1,
        min_session_timeout: Optional[float] = None,
        max_session_timeout: float = 60.0,
        data_dir: Union[str, "os.PathLike[str]", None] = None,
        zookeeper_version: Optional[str] = None,
        options: Sequence[str] = (),
        start_timeout: float = 30.0,
    ) -> None:
        """Starts a server on a free port of 127.0.0.1.

        Args:
            tick: the granularity of session expiry, in seconds. A session expires up to one tick
                after its timeout. The default is short, so tests can use short timeouts.
            min_session_timeout: the shortest timeout that a session gets. Default: two ticks.
            max_session_timeout: the longest timeout that a session gets.
            data_dir: the directory to load nodes and sessions from, and to save them to at the
                end. Default: none. Not for ensembles.
            zookeeper_version: `"3.8"` or `"3.9"`, where they differ. Default: 3.9.
            options: further options of the program; `zk-test-server --help` lists them.
            start_timeout: the time for the start.

        Raises:
            BinaryNotFound: the program is not installed.
            StartFailed: the program has ended, for example because an option is wrong, or is not
                ready in time.
            ValueError: a duration is negative or too long.
        """
        arguments = [
            *("--port", "0"),
            *("--tick-time", str(millis(tick, "start"))),
            *("--max-session-timeout", str(millis(max_session_timeout, "start"))),
        ]
        if min_session_timeout is not None:
            arguments += ["--min-session-timeout", str(millis(min_session_timeout, "start"))]
        if data_dir is not None:
            arguments += ["--data-dir", os.fspath(data_dir)]
        if zookeeper_version is not None:
            arguments += ["--zookeeper-version", zookeeper_version]
        self._process = Process(
            find_binary(), [*arguments, *self._arguments(), *options], start_timeout
        )
        self._connections = Connections(self._process.control_port, self._process.token)
        try:
            #: The addresses of all members for clients: `host:port,host:port`.
            self.connect_string: str = self._call("info")["connect_string"]
        except BaseException:
            self.close()
            raise

    def _arguments(self) -> List[str]:
        return []

    # Start and end

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    @property
    def addresses(self) -> Tuple[str, ...]:
        """The address of each member, `host:port`."""
        return tuple(self._process.addresses)

    def close(self) -> None:
        """Ends the program, and waits for its end. A second call has no effect.

        With `data_dir`, the program saves its data first. In a forked process, this only closes
        the connections of that process.
        """
        self._connections.close("the server was closed")
        self._process.close()

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connect_string!r})"

    def _calls_so_far(self) -> int:
        return self._connections.calls

    # Servers and networks

    def stop(self, member: MemberLike = ALL) -> Fault:
        """Stops serving: connections end, the port is closed, the data stays.

        Without `member`, this stops all members. The end of the fault is `start`.
        """
        self._call("stop", member=member)
        return Fault(lambda: self.start(member))

    def start(self, member: MemberLike = ALL) -> None:
        """Serves again on the same port, after `stop`. No effect on a member that runs.

        Raises:
            CallFailed: the port is in use.
        """
        self._call("start", member=member)

    def restart(self, member: MemberLike = ALL) -> None:
        """Ends all connections, and starts again with the same data."""
        self._call("restart", member=member)

    def pause(self, member: MemberLike = ALL) -> Fault:
        """Hangs: connections and bytes are accepted, but nothing is answered.

        Sessions do not expire during the pause, unless other members of an ensemble go on. The end
        of the fault is `resume`.
        """
        self._call("pause", member=member)
        return Fault(lambda: self.resume(member))

    def resume(self, member: MemberLike = ALL) -> None:
        """Ends `pause`."""
        self._call("resume", member=member)

    def partition(self, member: MemberLike = ALL) -> Fault:
        """Cuts the network to clients: bytes wait, and sessions expire.

        The end of the fault is `heal`.
        """
        self._call("partition", member=member)
        return Fault(lambda: self.heal(member))

    def heal(self, member: MemberLike = ALL) -> None:
        """Ends the `partition` of a member.

        Without `member`, this ends every `partition` and `split`.
        """
        self._call("heal", member=member)

    def set_read_only(self, read_only: bool = True, member: MemberLike = ALL) -> Fault:
        """Serves as without a quorum, or not any more. The end of the fault is the opposite."""
        self._call("set_read_only", read_only=read_only, member=member)
        return Fault(
            lambda: self._call("set_read_only", read_only=not read_only, member=member)
        )

    # Sessions and time

    def expire(self, session: SessionLike) -> None:
        """Ends a session as if its timeout had passed.

        Its ephemeral nodes are deleted, and its client is told at its next connection.

        Args:
            session: a connected kazoo client, or the id of a session.

        Raises:
            NoSuchSession: the session has ended, or the client has none.
        """
        self._call("expire", session=session_text(session, "expire"))

    def disconnect(self, session: Union[SessionLike, All] = ALL) -> int:
        """Closes the connection of a session, or all connections. Returns the number closed.

        Raises:
            NoSuchSession: the session has ended, or the client has none.
        """
        text = ALL if isinstance(session, All) else session_text(session, "disconnect")
        connections: int = self._call("disconnect", session=text)["connections"]
        return connections

    def advance(self, seconds: float) -> None:
        """Lets time pass for sessions, containers and nodes with a time to live.

        A session expires if this is more than its timeout, even if its client is connected.
        """
        self._call("advance", by_ms=millis(seconds, "advance"))

    def shift_wall_clock(self, seconds: float, member: MemberLike = ALL) -> None:
        """Changes the clock of `ctime` and `mtime` by at most 49 days. Negative values set it back.

        Sessions do not expire by this, unlike `advance`.
        """
        by = millis(abs(seconds), "shift_wall_clock")
        self._call("shift_wall_clock", by_ms=by if seconds >= 0 else -by, member=member)

    # Nodes

    def set_version(self, path: str, version: int) -> None:
        """Sets the version of the data of a node, for tests of versions that wrap around.

        Raises:
            NoSuchNode: the node does not exist.
        """
        self._call("set_version", path=path, version=version)

    def set_sequence(self, path: str, next: int) -> None:
        """Sets the next sequence number of the children of a node.

        Raises:
            NoSuchNode: the node does not exist.
        """
        self._call("set_sequence", path=path, next=next)

    def remove(self, path: str) -> List[int]:
        """Deletes a node and all nodes below, as an operator does.

        Returns the sessions that owned removed ephemeral nodes.

        Raises:
            NoSuchNode: the node does not exist.
        """
        sessions = self._call("remove", path=path)["sessions"]
        return [session_id(session) for session in sessions]

    def reap_containers(self) -> List[str]:
        """Deletes empty containers and expired nodes now. Returns their paths."""
        paths: List[str] = self._call("reap_containers")["paths"]
        return paths

    # Rules

    def add_rule(
        self,
        verdict: Verdict,
        operation: Union[Operation, Sequence[Operation], None] = None,
        *,
        path: Optional[str] = None,
        under: Optional[str] = None,
        session: Union[SessionLike, All] = ALL,
        member: MemberLike = ALL,
        after: int = 0,
        times: Optional[int] = None,
        name: Optional[str] = None,
    ) -> Rule:
        """Installs a rule for requests of clients. It is active immediately.

        The second create under /locks loses its reply::

            server.add_rule("lose_reply", "create", under="/locks", after=1, times=1)

        A rule fires for requests that match all of its conditions. The first rule that fires
        decides about the request.

        Args:
            verdict: the effect.
                `"lose_reply"`: the request is applied, its reply is lost, the connection ends.
                `"lose_request"`: the request is not applied, and the connection ends after
                earlier replies.
                `"disconnect"`: the request is not applied, and the connection ends immediately.
                `Delay(seconds)`: the request, and all after it on this connection, arrive later,
                at the latest when the rule is removed.
                `Refuse(error)`: the request is answered with this error.
            operation: one operation or several. A transaction also matches by each of its
                operations. Default: every operation, including `ping`.
            path: a pattern that one path of the request matches: `*` is any characters except
                slashes, `?` is one, a component `**` is any number of components. Sequence
                numbers are not part of the path. Default: every path, and requests without one.
            under: the parent of a path of the request. A pattern is refused.
            session: a connected kazoo client or the id of a session. Default: every session.
            member: the member that receives the request. Default: every member.
            after: the number of matching requests that pass first.
            times: the maximum number of times that the rule fires, at least 1. Default: no limit.
            name: the name for messages. Default: `rule-1`, `rule-2`, …

        Raises:
            BadRequest: a parameter is wrong, or there is a rule of this name.
        """
        parameters = rule_parameters(
            verdict, operation, path, under, session, member, after, times, name
        )
        return Rule(self, self._call("add_rule", **parameters)["rule"])

    def remove_rules(self) -> None:
        """Removes all rules."""
        self._call("remove_rules")

    def reset(self) -> None:
        """Removes rules and lags, heals, resumes and starts all members, which serve writes again.

        Nodes, sessions and clocks stay.
        """
        self._call("reset")

    # State

    def info(self) -> Info:
        """Returns the roles of the members."""
        return parsed("info", info_of, self._call("info"))

    def probe(self, member: MemberLike = ALL) -> Probe:
        """Returns the state: nodes, sessions, watches, counts.

        Without `member`, the nodes are those of the member with the latest state. Watches and
        counts are of all members.
        """
        return parsed("probe", probe_of, self._call("probe", member=member))

    def journal(self) -> List[JournalEntry]:
        """Returns the faults so far, in order."""
        return parsed("journal", journal_of, self._call("journal"))

    # Waits

    def until_exists(self, path: str, *, timeout: float = 30.0) -> float:
        """Waits until a node exists. Returns the seconds waited.

        Raises:
            WaitTimeout: it does not exist within `timeout` seconds. All waits raise this.
        """
        return self._until({"exists": path}, timeout)

    def until_absent(self, path: str, *, timeout: float = 30.0) -> float:
        """Waits until a node does not exist. Returns the seconds waited."""
        return self._until({"absent": path}, timeout)

    def until_children(self, path: str, count: int, *, timeout: float = 30.0) -> float:
        """Waits until a node exists with exactly `count` children. Returns the seconds waited."""
        return self._until({"children": path, "count": count}, timeout)

    def until_watches(self, path: str, at_least: int = 1, *, timeout: float = 30.0) -> float:
        """Waits until a path has `at_least` watches of any kind. Returns the seconds waited."""
        return self._until({"watches": path, "at_least": at_least}, timeout)

    def until_sessions(self, count: int, *, timeout: float = 30.0) -> float:
        """Waits until there are exactly `count` sessions. Returns the seconds waited."""
        return self._until({"sessions": count}, timeout)

    def until_session_ended(self, session: SessionLike, *, timeout: float = 30.0) -> float:
        """Waits until a session has expired or was closed. Returns the seconds waited.

        A kazoo client names the session that it has at the time of this call.
        """
        return self._until_session("session_ended", session, timeout)

    def until_session_connected(self, session: SessionLike, *, timeout: float = 30.0) -> float:
        """Waits until a session has a connection. Returns the seconds waited."""
        return self._until_session("session_connected", session, timeout)

    def until_session_disconnected(self, session: SessionLike, *, timeout: float = 30.0) -> float:
        """Waits until a session has no connection, or has ended. Returns the seconds waited."""
        return self._until_session("session_disconnected", session, timeout)

    def _until_session(self, condition: str, session: SessionLike, timeout: float) -> float:
        return self._until({condition: session_text(session, "until")}, timeout)

    def _until(self, condition: Dict[str, Any], timeout: float) -> float:
        waits = millis(timeout, "until")
        limit = timeout + RESPONSE_TIMEOUT
        result = self._within(limit, "until", condition=condition, timeout_ms=waits)
        return float(result["waited_ms"]) / 1000

    # Calls

    def _call(self, call: str, **parameters: Any) -> Dict[str, Any]:
        return self._within(RESPONSE_TIMEOUT, call, **parameters)

    def _within(self, timeout: float, call: str, **parameters: Any) -> Dict[str, Any]:
        try:
            return self._connections.call(call, given(**parameters), timeout)
        except ServerEnded as error:
            explained = self._explained(error, call)
            if explained is error:
                raise
            raise explained from error

    def _explained(self, error: ServerEnded, call: str) -> ServerEnded:
        if self._connections.closed:
            return error
        code = self._process.exit_code()
        if code is None:
            return error
        text = f"{error}; the program has ended with exit code {code}"
        return ServerEnded(text + self._process.last_errors(), call=call)


class TestCluster(TestServer):
    """An ensemble of servers, in a process of its own.

    Members are numbered from 0. Methods without their optional `member` are about all members.
    """

    def __init__(
        self,
        members: int = 3,
        *,
        tick: float = 0.1,
        min_session_timeout: Optional[float] = None,
        max_session_timeout: float = 60.0,
        zookeeper_version: Optional[str] = None,
        options: Sequence[str] = (),
        start_timeout: float = 30.0,
    ) -> None:
        """Starts an ensemble of `members` members, from 1 to 99, on free ports of 127.0.0.1.

        The other arguments, and the errors, are those of `TestServer`.
        """
        self._members = members
        super().__init__(
            tick=tick,
            min_session_timeout=min_session_timeout,
            max_session_timeout=max_session_timeout,
            zookeeper_version=zookeeper_version,
            options=options,
            start_timeout=start_timeout,
        )

    def _arguments(self) -> List[str]:
        return ["--ensemble", str(self._members)]

    @property
    def leader(self) -> Optional[int]:
        """The number of the leader; None if there is none."""
        return self.info().leader

    def split(self, *sides: Sequence[int]) -> Fault:
        """Cuts the network between the sides of the ensemble: `cluster.split([0], [1, 2])`.

        Members that no side has form one more side. A side with more than half of all members
        continues, under a new leader if necessary. This replaces an earlier split. The end of the
        fault is a split into no sides: it keeps every `partition`, unlike `heal`.
        """
        self._call("split", sides=[list(side) for side in sides])
        return Fault(lambda: self._call("split", sides=[]))

    def lag(self, member: int, delay: Optional[float] = None) -> Fault:
        """Lets a follower apply commits later: it serves stale reads.

        Args:
            delay: the time between a commit and its application. Default: it applies none until
                the end of the fault.

        Raises:
            Unsupported: the ensemble has one member.
        """
        milliseconds = ALL if delay is None else millis(delay, "lag")
        lag = self._call("lag", member=member, delay_ms=milliseconds)["lag"]
        return Fault(lambda: self._call("end_lag", lag=lag))

    def change_leader(self, member: MemberLike = ALL) -> int:
        """Elects another leader, or this member. Returns the number of the leader.

        Sessions have their full timeout again. All connections of the quorum end.

        Raises:
            CallFailed: there is no quorum, or no other member that can lead.
            Unsupported: the ensemble has one member.
        """
        leader: int = self._call("change_leader", member=member)["leader"]
        return leader

    def until_leader(self, leader: bool = True, *, timeout: float = 30.0) -> float:
        """Waits until there is a leader, or until there is none. Returns the seconds waited."""
        return self._until({"leader": leader}, timeout)
