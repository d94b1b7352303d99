"""The coroutines of servers and ensembles."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from typing import Any, Awaitable, Callable, List

import pytest
from kazoo.client import KazooClient

from zk_test_server import (
    AsyncTestCluster,
    AsyncTestServer,
    BadRequest,
    Delay,
    NoSuchRule,
    ServerEnded,
    TestCluster,
    TestServer,
    WaitTimeout,
)


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(body(), 120)

    asyncio.run(limited())


def parameters(method: Any) -> List[str]:
    return [str(one) for one in list(inspect.signature(method).parameters.values())[1:]]


@pytest.mark.parametrize(
    "coroutines, calls", [(AsyncTestServer, TestServer), (AsyncTestCluster, TestCluster)]
)
def test_every_call_is_a_coroutine_with_the_same_parameters(coroutines: Any, calls: Any) -> None:
    for name, method in inspect.getmembers(calls):
        if name.startswith("_"):
            continue
        if isinstance(method, property) and name in ("pid", "addresses"):
            continue
        coroutine = getattr(coroutines, name)
        assert inspect.iscoroutinefunction(coroutine), name
        if not isinstance(method, property):
            assert parameters(coroutine) == parameters(method), name


def test_waits_do_not_block_the_loop(zk_server: TestServer, zk_client: KazooClient) -> None:
    async def body() -> None:
        server = AsyncTestServer(zk_server)
        # More waits than connections: the last call ends them.
        rule = await server.add_rule(Delay(10**6), "create")
        waits = [asyncio.ensure_future(rule.until_hit(2)) for _ in range(100)]
        pending = zk_client.create_async("/late")
        await rule.until_hit()
        assert await rule.hits() == 1
        assert not any(wait.done() for wait in waits)
        assert await rule.remove() == await rule.hits() == 1
        for wait in waits:
            with pytest.raises(NoSuchRule):
                await wait
        await server.until_exists("/late")
        assert pending.get(timeout=30) == "/late"

    run(body)


def test_cancelled_waits_leave_room_for_others(zk_server: TestServer) -> None:
    async def body() -> None:
        server = AsyncTestServer(zk_server)
        for _ in range(5):
            waits = [asyncio.ensure_future(server.until_exists("/a")) for _ in range(40)]
            # The calls of this loop run after the waits have begun.
            await server.info()
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            assert all(wait.cancelled() for wait in waits)
        with pytest.raises(WaitTimeout):
            await server.until_exists("/a", timeout=0)
        assert (await server.probe()).sessions == ()

    run(body)


def test_faults_end_with_their_blocks(zk_server: TestServer, zk_client: KazooClient) -> None:
    async def body() -> None:
        server = AsyncTestServer(zk_server)
        session = zk_client.client_id[0]
        async with await server.stop():
            assert (await server.info()).members[0].role == "stopped"
            await server.until_session_disconnected(session)
        assert (await server.info()).members[0].role == "standalone"
        async with await server.pause(), await server.partition():
            pass
        async with await server.set_read_only():
            assert (await server.info()).members[0].role == "read-only"
        async with await server.add_rule("disconnect", "create", times=1) as rule:
            assert await rule.hits() == 0
        with pytest.raises(BadRequest):
            await server.add_rule("disconnect", times=0)
        await server.until_session_connected(session)
        await server.advance(0)
        await server.shift_wall_clock(-1)
        await server.reset()
        faults = [entry.fault for entry in await server.journal()]
        assert "stopped" in faults and "held" in faults

    run(body)


def test_ensembles_have_coroutines(zk_cluster: TestCluster) -> None:
    async def body() -> None:
        cluster = AsyncTestCluster(zk_cluster)
        before = await cluster.leader()
        assert before is not None
        assert await cluster.change_leader() != before
        follower = next(one for one in range(3) if one != zk_cluster.leader)
        async with await cluster.lag(follower), await cluster.split([0], [1, 2]):
            await cluster.until_leader()
        async with await cluster.stop(0), await cluster.stop(1):
            await cluster.until_leader(False)
            leader: Any = await cluster.leader()
            with pytest.raises(BadRequest):
                await cluster.stop(leader)
        await cluster.until_leader()

    run(body)


def test_servers_are_launched_and_closed_in_a_loop() -> None:
    async def body() -> None:
        async with await AsyncTestServer.launch(lambda: TestServer(tick=0.05)) as server:
            wait = asyncio.ensure_future(server.until_exists("/a"))
            assert (await server.info()).connect_string == server.connect_string
            assert server.addresses == (server.connect_string,)
        with pytest.raises(ServerEnded):
            await wait
        with pytest.raises(ServerEnded, match="the server was closed"):
            await server.info()
        async with await AsyncTestCluster.launch_cluster(lambda: TestCluster(1)) as cluster:
            assert await cluster.leader() is None

    run(body)


def test_end_of_the_program_is_told_to_coroutines(zk_server: TestServer) -> None:
    async def body() -> None:
        server = AsyncTestServer(zk_server)
        await server.info()
        os.kill(zk_server.pid, signal.SIGKILL)
        with pytest.raises(ServerEnded, match="exit code -9"):
            await server.until_exists("/a")

    run(body)
