"""The calls of servers and ensembles as coroutines, for tests with asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import (
    Any,
    Awaitable,
    Callable,
    Dict,
    Generic,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ._connection import MOST_CALLS, MOST_WAITS, PROTOCOL_VERSION, Messages
from ._probe import Info, JournalEntry, Probe, info_of, journal_of, probe_of
from ._rules import Operation, Verdict, rule_parameters
from ._server import RESPONSE_TIMEOUT, TestCluster, TestServer, parsed
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
from .errors import NoResponse, NoSuchRule, ServerEnded, ZkTestServerError

# The maximum length of a response, in bytes.
_MOST_BYTES = 2**30

_K = TypeVar("_K", bound=TestServer)
_S = TypeVar("_S", bound="AsyncTestServer[Any]")
_T = TypeVar("_T")


class _Connection(Messages):
    """One connection. Its requests run one after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, token: str) -> "_Connection":
        try:
            streams = await asyncio.open_connection("127.0.0.1", port, limit=_MOST_BYTES)
        except OSError as error:
            text = f"hello: cannot connect to the program: {error}"
            raise ServerEnded(text, call="hello") from error
        connection = cls(*streams)
        try:
            await connection.call("hello", {"version": PROTOCOL_VERSION, "token": token})
        except BaseException:
            connection.close()
            raise
        return connection

    async def call(self, call: str, parameters: Dict[str, Any]) -> Dict[str, Any]:
        line = self.request(call, parameters)
        try:
            self._writer.write(line)
            await self._writer.drain()
            answer = await self._reader.readline()
        except OSError as error:
            raise ServerEnded(f"{call}: the connection is broken: {error}", call=call) from error
        return self.result(answer, call)

    def close(self) -> None:
        self._writer.close()


class _Calls:
    """The calls of one event loop. Each has a connection of its own, which ends with it.

    So nothing is left open when the loop ends.
    """

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._limits: Optional[Tuple[asyncio.Semaphore, asyncio.Semaphore]] = None

    async def call(
        self, call: str, parameters: Dict[str, Any], timeout: float
    ) -> Dict[str, Any]:
        if self._limits is None:
            # In Python 3.9, a semaphore belongs to the loop in which it is created.
            self._limits = (asyncio.Semaphore(MOST_WAITS), asyncio.Semaphore(MOST_CALLS))
        waits, others = self._limits
        # A wait may last until another call ends it.
        async with waits if call == "until" else others:
            try:
                return await asyncio.wait_for(self._call(call, parameters), timeout)
            except asyncio.TimeoutError as error:
                if isinstance(error, ZkTestServerError):
                    raise  # `WaitTimeout` is a `TimeoutError`, too.
                text = f"{call}: no response within {timeout:g} s"
                raise NoResponse(text, call=call) from error

    async def _call(self, call: str, parameters: Dict[str, Any]) -> Dict[str, Any]:
        connection = await _Connection.open(self._port, self._token)
        try:
            return await connection.call(call, parameters)
        finally:
            # The program ends a wait whose connection ends.
            connection.close()


class AsyncFault:
    """A fault that lasts until `end` is awaited, or until the end of its `async with` block.

    The fault has begun when the coroutine that returns it is done.
    """

    def __init__(self, end: Callable[[], Awaitable[object]]) -> None:
        self._end: Optional[Callable[[], Awaitable[object]]] = end

    async def end(self) -> None:
        """Ends the fault. A second call has no effect."""
        end, self._end = self._end, None
        if end is not None:
            await end()

    async def __aenter__(self) -> "AsyncFault":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            await self.end()
        except ServerEnded:
            pass  # A server that was closed inside the block has no faults.


class AsyncRule:
    """An installed rule. It is active until `remove`, or until the end of its `async with` block."""

    def __init__(self, server: "AsyncTestServer[Any]", name: str) -> None:
        self._server = server
        self._removed: Optional[int] = None
        #: The name of the rule.
        self.name = name

    async def hits(self) -> int:
        """Returns the number of times that the rule has fired. Works after `remove`, too.

        Raises:
            NoSuchRule: the rule was removed by `reset` or `remove_rules`.
        """
        if self._removed is not None:
            return self._removed
        hits: int = (await self._server._call("rule", rule=self.name))["hits"]
        return hits

    async def until_hit(self, hits: int = 1, *, timeout: float = 30.0) -> float:
        """Waits as `Rule.until_hit` does."""
        return await self._server._until({"rule": self.name, "hits": hits}, timeout)

    async def remove(self) -> int:
        """Removes the rule, and returns its hits. A second call only returns them.

        Raises:
            NoSuchRule: the rule was removed by `reset` or `remove_rules`.
        """
        if self._removed is None:
            result = await self._server._call("remove_rule", rule=self.name)
            self._removed = result["hits"]
        return self._removed

    async def __aenter__(self) -> "AsyncRule":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            await self.remove()
        except (NoSuchRule, ServerEnded):
            pass

    def __repr__(self) -> str:
        return f"AsyncRule({self.name!r})"


class AsyncTestServer(Generic[_K]):
    """The calls of a `TestServer` as coroutines, so that a wait does not block the event loop.

    It is for one event loop, and for a server that runs, for example that of a fixture::

        async def test_config(zk_server):
            server = AsyncTestServer(zk_server)
            await server.until_exists("/config")

    `async with` closes the server at the end of the block::

        async with await AsyncTestServer.launch() as server:
            ...

    Methods have the parameters, results and errors of those of `TestServer`, but for `hits` of a
    rule and `leader` of an ensemble, which are coroutines, too. A cancelled wait ends in the program
    as well. Another call that is cancelled may have its effect.
    """

    # pytest does not collect this class.
    __test__ = False

    def __init__(self, server: _K) -> None:
        #: The server, whose calls block.
        self.server = server
        self._calls = _Calls(server._process.control_port, server._process.token)

    @staticmethod
    async def launch(
        start: Callable[[], TestServer] = TestServer,
    ) -> "AsyncTestServer[TestServer]":
        """Starts a server in a thread: `await AsyncTestServer.launch(lambda: TestServer(tick=1))`."""
        return AsyncTestServer(await _in_thread(start))

    @property
    def connect_string(self) -> str:
        """The addresses of all members for clients: `host:port,host:port`."""
        return self.server.connect_string

    @property
    def addresses(self) -> Tuple[str, ...]:
        """The address of each member, `host:port`."""
        return self.server.addresses

    async def close(self) -> None:
        """Closes the server, and waits for the end of the program. Calls that run end with an error."""
        await _in_thread(self.server.close)

    async def __aenter__(self: _S) -> _S:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    # Servers and networks

    async def stop(self, member: MemberLike = ALL) -> AsyncFault:
        """Stops as `TestServer.stop` does."""
        await self._call("stop", member=member)
        return AsyncFault(lambda: self.start(member))

    async def start(self, member: MemberLike = ALL) -> None:
        """Starts as `TestServer.start` does."""
        await self._call("start", member=member)

    async def restart(self, member: MemberLike = ALL) -> None:
        """Restarts as `TestServer.restart` does."""
        await self._call("restart", member=member)

    async def pause(self, member: MemberLike = ALL) -> AsyncFault:
        """Hangs as by `TestServer.pause`."""
        await self._call("pause", member=member)
        return AsyncFault(lambda: self.resume(member))

    async def resume(self, member: MemberLike = ALL) -> None:
        """Ends `pause`."""
        await self._call("resume", member=member)

    async def partition(self, member: MemberLike = ALL) -> AsyncFault:
        """Cuts the network as `TestServer.partition` does."""
        await self._call("partition", member=member)
        return AsyncFault(lambda: self.heal(member))

    async def heal(self, member: MemberLike = ALL) -> None:
        """Heals as `TestServer.heal` does."""
        await self._call("heal", member=member)

    async def set_read_only(
        self, read_only: bool = True, member: MemberLike = ALL
    ) -> AsyncFault:
        """Sets the mode as `TestServer.set_read_only` does."""
        await self._call("set_read_only", read_only=read_only, member=member)
        return AsyncFault(
            lambda: self._call("set_read_only", read_only=not read_only, member=member)
        )

    # Sessions and time

    async def expire(self, session: SessionLike) -> None:
        """Expires a session as `TestServer.expire` does."""
        await self._call("expire", session=session_text(session, "expire"))

    async def disconnect(self, session: Union[SessionLike, All] = ALL) -> int:
        """Closes connections as `TestServer.disconnect` does."""
        text = ALL if isinstance(session, All) else session_text(session, "disconnect")
        connections: int = (await self._call("disconnect", session=text))["connections"]
        return connections

    async def advance(self, seconds: float) -> None:
        """Lets time pass as `TestServer.advance` does."""
        await self._call("advance", by_ms=millis(seconds, "advance"))

    async def shift_wall_clock(self, seconds: float, member: MemberLike = ALL) -> None:
        """Changes the clock as `TestServer.shift_wall_clock` does."""
        by = millis(abs(seconds), "shift_wall_clock")
        await self._call("shift_wall_clock", by_ms=by if seconds >= 0 else -by, member=member)

    # Nodes

    async def set_version(self, path: str, version: int) -> None:
        """Sets the version of the data of a node."""
        await self._call("set_version", path=path, version=version)

    async def set_sequence(self, path: str, next: int) -> None:
        """Sets the next sequence number of the children of a node."""
        await self._call("set_sequence", path=path, next=next)

    async def remove(self, path: str) -> List[int]:
        """Deletes nodes as `TestServer.remove` does."""
        sessions = (await self._call("remove", path=path))["sessions"]
        return [session_id(session) for session in sessions]

    async def reap_containers(self) -> List[str]:
        """Deletes empty containers and expired nodes now. Returns their paths."""
        paths: List[str] = (await self._call("reap_containers"))["paths"]
        return paths

    # Rules

    async def add_rule(
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
    ) -> AsyncRule:
        """Installs a rule as `TestServer.add_rule` does."""
        parameters = rule_parameters(
            verdict, operation, path, under, session, member, after, times, name
        )
        return AsyncRule(self, (await self._call("add_rule", **parameters))["rule"])

    async def remove_rules(self) -> None:
        """Removes all rules."""
        await self._call("remove_rules")

    async def reset(self) -> None:
        """Ends all faults as `TestServer.reset` does."""
        await self._call("reset")

    # State

    async def info(self) -> Info:
        """Returns the roles of the members."""
        return parsed("info", info_of, await self._call("info"))

    async def probe(self, member: MemberLike = ALL) -> Probe:
        """Returns the state as `TestServer.probe` does."""
        return parsed("probe", probe_of, await self._call("probe", member=member))

    async def journal(self) -> List[JournalEntry]:
        """Returns the faults so far, in order."""
        return parsed("journal", journal_of, await self._call("journal"))

    # Waits

    async def until_exists(self, path: str, *, timeout: float = 30.0) -> float:
        """Waits as `TestServer.until_exists` does."""
        return await self._until({"exists": path}, timeout)

    async def until_absent(self, path: str, *, timeout: float = 30.0) -> float:
        """Waits as `TestServer.until_absent` does."""
        return await self._until({"absent": path}, timeout)

    async def until_children(self, path: str, count: int, *, timeout: float = 30.0) -> float:
        """Waits as `TestServer.until_children` does."""
        return await self._until({"children": path, "count": count}, timeout)

    async def until_watches(
        self, path: str, at_least: int = 1, *, timeout: float = 30.0
    ) -> float:
        """Waits as `TestServer.until_watches` does."""
        return await self._until({"watches": path, "at_least": at_least}, timeout)

    async def until_sessions(self, count: int, *, timeout: float = 30.0) -> float:
        """Waits as `TestServer.until_sessions` does."""
        return await self._until({"sessions": count}, timeout)

    async def until_session_ended(
        self, session: SessionLike, *, timeout: float = 30.0
    ) -> float:
        """Waits as `TestServer.until_session_ended` does."""
        return await self._until({"session_ended": session_text(session, "until")}, timeout)

    async def until_session_connected(
        self, session: SessionLike, *, timeout: float = 30.0
    ) -> float:
        """Waits as `TestServer.until_session_connected` does."""
        return await self._until({"session_connected": session_text(session, "until")}, timeout)

    async def until_session_disconnected(
        self, session: SessionLike, *, timeout: float = 30.0
    ) -> float:
        """Waits as `TestServer.until_session_disconnected` does."""
        condition = {"session_disconnected": session_text(session, "until")}
        return await self._until(condition, timeout)

    async def _until(self, condition: Dict[str, Any], timeout: float) -> float:
        waits = millis(timeout, "until")
        limit = timeout + RESPONSE_TIMEOUT
        result = await self._within(limit, "until", condition=condition, timeout_ms=waits)
        return float(result["waited_ms"]) / 1000

    # Calls

    async def _call(self, call: str, **parameters: Any) -> Dict[str, Any]:
        return await self._within(RESPONSE_TIMEOUT, call, **parameters)

    async def _within(self, timeout: float, call: str, **parameters: Any) -> Dict[str, Any]:
        self.server._connections.start(call)
        try:
            return await self._calls.call(call, given(**parameters), timeout)
        except ServerEnded as error:
            failure = error
            explained = await _in_thread(lambda: self.server._explained(failure, call))
            if explained is error:
                raise
            raise explained from error


class AsyncTestCluster(AsyncTestServer[TestCluster]):
    """The calls of a `TestCluster` as coroutines, see `AsyncTestServer`.

    `await AsyncTestCluster.launch_cluster()` starts one; `AsyncTestCluster(zk_cluster)` has that of
    the fixture.
    """

    @staticmethod
    async def launch_cluster(
        start: Callable[[], TestCluster] = TestCluster,
    ) -> "AsyncTestCluster":
        """Starts an ensemble in a thread, see `AsyncTestServer.launch`."""
        return AsyncTestCluster(await _in_thread(start))

    async def leader(self) -> Optional[int]:
        """Returns the number of the leader; None if there is none."""
        return (await self.info()).leader

    async def split(self, *sides: Sequence[int]) -> AsyncFault:
        """Splits the ensemble as `TestCluster.split` does."""
        await self._call("split", sides=[list(side) for side in sides])
        return AsyncFault(lambda: self._call("split", sides=[]))

    async def lag(self, member: int, delay: Optional[float] = None) -> AsyncFault:
        """Lets a follower lag as `TestCluster.lag` does."""
        milliseconds = ALL if delay is None else millis(delay, "lag")
        lag = (await self._call("lag", member=member, delay_ms=milliseconds))["lag"]
        return AsyncFault(lambda: self._call("end_lag", lag=lag))

    async def change_leader(self, member: MemberLike = ALL) -> int:
        """Elects a leader as `TestCluster.change_leader` does."""
        leader: int = (await self._call("change_leader", member=member))["leader"]
        return leader

    async def until_leader(self, leader: bool = True, *, timeout: float = 30.0) -> float:
        """Waits as `TestCluster.until_leader` does."""
        return await self._until({"leader": leader}, timeout)


async def _in_thread(function: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(None, function)
