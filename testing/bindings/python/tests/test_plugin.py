"""The pytest plugin, in test suites of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _plain(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    no_chroot = "-W 'ignore:No chroot path exists'"  # kazoo warns before a test can create it.
    pytester.makeini(f"[pytest]\naddopts = --strict-markers -W error {no_chroot}")


def test_each_test_has_a_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(zk_server, zk_client):
            zk_client.create("/a")

        def test_two(zk_server, zk_client):
            assert not zk_server.probe().exists("/a")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_shared_server_loses_faults_but_no_nodes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        servers = []

        def test_one(zk_shared_server, zk_client):
            zk_client.create("/a")
            zk_shared_server.add_rule("lose_reply", "exists")
            zk_shared_server.pause()
            servers.append(zk_shared_server)

        def test_two(zk_shared_server, zk_connect):
            client = zk_connect()
            assert client.exists("/a")
            client = zk_connect(hosts=zk_shared_server.connect_string + "/test-two")
            client.ensure_path("/")
            assert not client.exists("/a")
            assert servers == [zk_shared_server]
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_shared_server_loses_faults_of_tests_without_clients(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from zk_test_server import NoSuchRule

        rules = []

        def test_one(zk_shared_server):
            rules.append(zk_shared_server.add_rule("lose_reply", "create"))
            assert rules[0].hits == 0

        def test_two(zk_shared_server):
            with pytest.raises(NoSuchRule):
                rules[0].hits
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_servers_that_a_test_asks_for_are_reset_and_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from zk_test_server import NoSuchRule

        rules = []

        def test_one(request):
            shared = request.getfixturevalue("zk_shared_server")
            rules.append(shared.add_rule("lose_reply", "create", name="forgotten"))
            assert rules[0].hits == 0
            shared.pause()

        def test_two(request):
            with pytest.raises(NoSuchRule):
                rules[0].hits
            cluster = request.getfixturevalue("zk_cluster")
            request.getfixturevalue("zk_connect")(hosts=cluster.connect_string)
            cluster.pause()
            assert False

        def test_three(zk_connect, request):
            shared = request.getfixturevalue("zk_shared_server")
            zk_connect(hosts=shared.connect_string)
            shared.pause()

        def test_four():
            assert False
        """
    )
    result = pytester.runpytest_subprocess(timeout=120)
    result.assert_outcomes(passed=2, failed=2)
    sections = [line for line in result.outlines if "zk-test-server zk_" in line]
    assert [section.strip("- ") for section in sections] == [
        "zk-test-server zk_shared_server",
        "zk-test-server zk_cluster",
    ]


def test_markers_have_the_options_of_the_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.zk_server(max_session_timeout=8)

        def test_module(zk_server, zk_client):
            assert zk_server.probe().session(zk_client).timeout == 8

        @pytest.mark.zk_server(max_session_timeout=3)
        @pytest.mark.zk_cluster(4)
        def test_function(zk_server, zk_cluster):
            assert len(zk_cluster.addresses) == 4

        def test_client_of_cluster(zk_cluster, zk_client):
            assert zk_cluster.probe().session(zk_client).timeout == 10
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


def test_failed_test_shows_the_state_of_its_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_fails(zk_server, zk_client):
            zk_client.create("/found-me", b"here", ephemeral=True)
            with zk_server.partition():
                pass
            assert False
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*zk-test-server zk_server*", "fault at *partition*", "node /found-me = b'here'"]
    )
    result.stdout.fnmatch_lines(["session 0x*: *connected, owns [[]'/found-me'[]]"])


def test_hung_server_does_not_hang_the_end_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal

        def test_paused(zk_server, zk_client):
            zk_server.pause()

        def test_partitioned(zk_server, zk_client):
            zk_server.partition()

        def test_stopped(zk_server, zk_client):
            zk_server.stop()

        def test_other_server(zk_server, zk_cluster, zk_connect):
            zk_connect(hosts=zk_server.connect_string)
            zk_server.pause()

        def test_closed(zk_server, zk_client):
            zk_server.close()

        def test_killed(zk_server, zk_client):
            os.kill(zk_server.pid, signal.SIGKILL)
        """
    )
    pytester.runpytest_subprocess(timeout=120).assert_outcomes(passed=6)


def test_workers_of_xdist_share_no_port(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(8))
        def test_server(zk_server, zk_shared_server, zk_client, worker_id, number):
            assert zk_client.create("/a", ephemeral=True) == "/a"
            folder = pathlib.Path(__file__).parent
            (folder / f"{worker_id}-{number}.txt").write_text(zk_shared_server.connect_string)
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=8)
    servers = {
        (file.name.split("-")[0], file.read_text()) for file in pytester.path.glob("gw*.txt")
    }
    assert len(servers) == len({address for _, address in servers}) == 2


def test_unittest_works_with_and_without_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_case="""
        import unittest

        from kazoo.client import KazooClient
        from zk_test_server import TestServer


        class LockTest(unittest.TestCase):
            def setUp(self):
                self.server = TestServer()
                self.addCleanup(self.server.close)

            def connect(self):
                client = KazooClient(self.server.connect_string)
                client.start()
                self.addCleanup(client.close)
                self.addCleanup(client.stop)
                return client

            def test_one_holds_the_lock(self):
                one, two = self.connect().Lock("/lock"), self.connect().Lock("/lock")
                with one:
                    self.assertFalse(two.acquire(blocking=False))
                self.assertTrue(two.acquire(timeout=30))


        if __name__ == "__main__":
            unittest.main()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert pytester.runpython(pytester.path / "test_case.py").ret == 0


def test_client_fixture_without_kazoo_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(kazoo="raise ImportError('not installed')")
    pytester.makepyfile(
        test_it="""
        def test_server(zk_server):
            assert zk_server.probe().sessions == ()

        def test_client(zk_client):
            pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*need kazoo: pip install kazoo*"])
