package io.github.zkcurator.test;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.data.Stat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Each call, with the program and a client of Apache Curator. */
@Timeout(120)
class ZkTestServerTest {
    private static final Duration WAIT = Duration.ofSeconds(30);

    private ZkTestServer server;
    private CuratorFramework client;

    @BeforeEach
    void start() throws InterruptedException {
        server = new ZkTestServer();
        client = Clients.start(server.getConnectString());
    }

    @AfterEach
    void end() {
        server.reset();
        client.close();
        server.close();
    }

    @Test
    void aNewServerIsStandaloneAndEmpty() {
        ServerInfo info = server.info();
        assertEquals(server.getConnectString(), info.getConnectString());
        assertEquals("127.0.0.1:" + server.getPort(), info.getConnectString());
        assertEquals(1, info.getMembers().size());
        assertEquals("standalone", info.getMembers().get(0).getRole());
        assertEquals(0, info.getMembers().get(0).getBehind());
        assertEquals(List.of(), List.copyOf(server.probe().getNodes().keySet()));
    }

    @Test
    void aProbeShowsNodesSessionsAndWatches() throws Exception {
        client.create().forPath("/a", new byte[] {0, (byte) 200});
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/a/b", new byte[0]);
        client.create().withMode(CreateMode.CONTAINER).forPath("/c", new byte[0]);
        client.create().withTtl(5000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/t", new byte[0]);
        client.setData().forPath("/a", "new".getBytes(UTF_8));
        client.getData().usingWatcher((CuratorWatcher) event -> {}).forPath("/a");

        Probe probe = server.probe();
        assertEquals(List.of("/a", "/a/b", "/c", "/t"), List.copyOf(probe.getNodes().keySet()));
        Probe.Node node = probe.getNode("/a").orElseThrow();
        assertEquals("/a", node.getPath());
        assertArrayEquals("new".getBytes(UTF_8), node.getData());
        Stat stat = client.checkExists().forPath("/a");
        assertEquals(stat.getVersion(), node.getVersion());
        assertEquals(stat.getCversion(), node.getCversion());
        assertEquals(stat.getCzxid(), node.getCzxid());
        assertEquals(stat.getMzxid(), node.getMzxid());
        assertEquals(stat.getPzxid(), node.getPzxid());
        assertEquals(1, node.getChildren());
        assertFalse(node.getOwner().isPresent() || node.isContainer() || node.getTtl().isPresent());
        assertTrue(probe.getNode("/c").orElseThrow().isContainer());
        assertEquals(Duration.ofSeconds(5), probe.getNode("/t").orElseThrow().getTtl().orElseThrow());
        assertTrue(probe.getZxid() >= node.getMzxid());

        long id = Clients.id(client);
        assertEquals(id, probe.getNode("/a/b").orElseThrow().getOwner().orElseThrow());
        assertEquals(1, probe.getSessions().size());
        Probe.Session session = probe.getSession(id).orElseThrow();
        assertEquals(id, session.getId());
        assertTrue(session.isConnected());
        assertEquals(Duration.ofMillis(Clients.SESSION_MILLIS), session.getTimeout());
        assertEquals(List.of("/a/b"), session.getEphemerals());
        // Curator watches /zookeeper/config for itself.
        Probe.Watch watch = probe.getWatches().stream()
                .filter(one -> one.getPath().equals("/a")).findAny().orElseThrow();
        assertEquals(id, watch.getSession());
        assertEquals("data", watch.getKind());
        assertEquals(4, probe.getRequests(Operation.CREATE));
        assertEquals(1, probe.getRequests(Operation.SET_DATA));
        assertEquals(1, probe.getConnections());
        assertTrue(probe.toString().contains("/a of 3 bytes, version 1"), probe.toString());
    }

    @Test
    void anExpiredSessionLosesItsEphemeralNodes() throws Exception {
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
        long id = Clients.id(client);
        HasSession session = Clients.session(client);
        server.until(Condition.sessionConnected(session), WAIT);
        Condition ended = Condition.sessionEnded(session);
        Condition disconnected = Condition.sessionDisconnected(session);
        server.expire(session);
        server.until(ended, WAIT);
        server.until(disconnected, WAIT);
        server.until(Condition.sessionEnded(id), WAIT);
        server.until(Condition.absent("/e"), Duration.ZERO);
        ControlException error = assertThrows(ControlException.class, () -> server.expire(id));
        assertEquals(ErrorCode.NO_SUCH_SESSION, error.getCode());
        // Curator begins another session.
        client.create().forPath("/again");
        assertNotEquals(id, Clients.id(client));
    }

    @Test
    void aDisconnectedClientKeepsItsSession() throws Exception {
        long id = Clients.id(client);
        assertTrue(server.disconnect(Clients.session(client)));
        client.create().forPath("/a");
        assertEquals(id, Clients.id(client));
        assertEquals(2, server.probe().getConnections());
        assertTrue(server.disconnect(id));
        client.create().forPath("/b");
        assertEquals(1, server.disconnectAll());
        client.create().forPath("/c");
        assertEquals(4, server.probe().getConnections());
    }

    @Test
    void aStoppedServerKeepsNodesAndSessions() throws Exception {
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
        long id = Clients.id(client);
        server.stop();
        assertEquals("stopped", server.info().getMembers().get(0).getRole());
        assertThrows(ConnectException.class, () -> new Socket("127.0.0.1", server.getPort()).close());
        server.start();
        server.start();
        server.until(Condition.sessionConnected(id), WAIT);
        server.restart();
        server.until(Condition.sessionConnected(id), WAIT);
        assertEquals(id, client.checkExists().forPath("/e").getEphemeralOwner());
    }

    @Test
    void aStoppedServerKeepsItsPort() throws Exception {
        server.stop();
        try (ServerSocket other = new ServerSocket()) {
            other.setReuseAddress(true);
            assertThrows(BindException.class,
                    () -> other.bind(new InetSocketAddress("127.0.0.1", server.getPort())));
        }
        server.start();
        client.create().forPath("/a");
    }

    @Test
    void aPausedServerAnswersNothing() throws Exception {
        server.pause();
        CompletableFuture<Object> created = new CompletableFuture<>();
        client.create().inBackground((framework, event) -> created.complete(event.getResultCode())).forPath("/a");
        assertThrows(
                ConditionTimeoutException.class,
                () -> server.until(Condition.exists("/a"), Duration.ofMillis(300)));
        server.resume();
        assertEquals(0, created.get(30, TimeUnit.SECONDS));
    }

    @Test
    void aPartitionedClientLosesItsSession() throws Exception {
        try (CuratorFramework other = CuratorFrameworkFactory.newClient(
                server.getConnectString(), 500, 20_000, new RetryNTimes(100, 50))) {
            other.start();
            other.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
            long id = Clients.id(other);
            server.partition();
            server.until(Condition.sessionEnded(id), WAIT);
            server.heal();
            other.create().forPath("/f");
            assertNotEquals(id, Clients.id(other));
        }
    }

    @Test
    void aReadOnlyServerRefusesClientsThatWrite() throws Exception {
        server.setReadOnly(true);
        assertEquals("read-only", server.info().getMembers().get(0).getRole());
        server.setReadOnly(false);
        assertEquals("standalone", server.info().getMembers().get(0).getRole());
        client.create().forPath("/a");
    }

    @Test
    void timePassesForSessionsAndNodes() throws Exception {
        client.create().withTtl(3_600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/t");
        client.create().withMode(CreateMode.CONTAINER).forPath("/c");
        client.create().forPath("/c/d");
        client.delete().forPath("/c/d");
        server.advance(Duration.ofHours(2));
        List<String> reaped = new ArrayList<>(server.reapContainers());
        server.until(Condition.absent("/t"), WAIT);
        server.until(Condition.absent("/c"), WAIT);
        reaped.removeAll(List.of("/t", "/c"));
        assertEquals(List.of(), reaped);
    }

    @Test
    void theClockOfNodesCanJump() throws Exception {
        client.create().forPath("/a");
        server.shiftWallClock(Duration.ofDays(-20));
        client.create().forPath("/b");
        long between = client.checkExists().forPath("/a").getCtime() - client.checkExists().forPath("/b").getCtime();
        assertTrue(between > Duration.ofDays(19).toMillis(), "between: " + between);
    }

    @Test
    void countersCanBeCloseToTheirEnd() throws Exception {
        client.create().forPath("/a");
        server.setVersion("/a", Integer.MAX_VALUE - 1);
        assertEquals(Integer.MAX_VALUE, client.setData().forPath("/a").getVersion());
        server.setSequence("/a", 41);
        assertEquals("/a/n-0000000041",
                client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/a/n-"));
        ControlException error = assertThrows(ControlException.class, () -> server.setVersion("/absent", 1));
        assertEquals(ErrorCode.NO_SUCH_NODE, error.getCode());
        error = assertThrows(ControlException.class, () -> server.setSequence("/absent", 1));
        assertEquals(ErrorCode.NO_SUCH_NODE, error.getCode());
    }

    @Test
    void anOperatorRemovesNodes() throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/a/b");
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/a/b/e");
        CountDownLatch seen = new CountDownLatch(1);
        client.checkExists().usingWatcher((CuratorWatcher) event -> {
            if (event.getType() == EventType.NodeDeleted) {
                seen.countDown();
            }
        }).forPath("/a/b");
        server.until(Condition.watches("/a/b", 1));
        assertEquals(List.of(Clients.id(client)), server.remove("/a"));
        assertTrue(seen.await(30, TimeUnit.SECONDS));
        ControlException error = assertThrows(ControlException.class, () -> server.remove("/a"));
        assertEquals(ErrorCode.NO_SUCH_NODE, error.getCode());
    }

    @Test
    void aLostReplyIsApplied() throws Exception {
        RuleSpec first = RuleSpec.loseReply().on(Operation.SET_DATA, Operation.DELETE).path("/a").times(1);
        try (Rule lost = server.addRule(first)) {
            client.create().forPath("/a");
            client.setData().withVersion(0).forPath("/a");
            throw new AssertionError("Curator cannot know that its write was applied");
        } catch (KeeperException.BadVersionException error) {
            assertEquals(1, client.checkExists().forPath("/a").getVersion());
        }
    }

    @Test
    void aLostRequestIsNotApplied() throws Exception {
        client.create().forPath("/a");
        try (Rule lost = server.addRule(RuleSpec.loseRequest().on(Operation.SET_DATA).times(1))) {
            assertEquals(1, client.setData().withVersion(0).forPath("/a").getVersion());
            assertEquals(1, lost.hits());
        }
    }

    @Test
    void otherVerdicts() throws Exception {
        client.create().forPath("/a");
        // Curator reads /zookeeper/config for itself, so rules for reads need a path.
        try (Rule refused = server.addRule(RuleSpec.refuse("no_auth").on(Operation.GET_DATA).path("/a"))) {
            assertThrows(KeeperException.NoAuthException.class, () -> client.getData().forPath("/a"));
            assertEquals(1, refused.hits());
        }
        try (Rule refused = server.addRule(RuleSpec.refuse(-110).on(Operation.CREATE))) {
            assertThrows(KeeperException.NodeExistsException.class, () -> client.create().forPath("/b"));
            assertEquals(1, refused.remove());
        }
        try (Rule cut = server.addRule(RuleSpec.disconnect().on(Operation.GET_DATA).path("/a").times(1))) {
            client.getData().forPath("/a");
            cut.awaitHits(1, Duration.ZERO);
        }
        try (Rule slow = server.addRule(RuleSpec.delay(Duration.ofMillis(50)).on(Operation.GET_DATA).path("/a"))) {
            long start = System.nanoTime();
            client.getData().forPath("/a");
            assertTrue(System.nanoTime() - start >= 50_000_000, "a delay is a lower bound");
            assertEquals(1, slow.hits());
        }
    }

    @Test
    void rulesSelectRequests() throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/p/q/r");
        RuleSpec refuse = RuleSpec.refuse("no_auth").on(Operation.GET_DATA);
        try (Rule rule = server.addRule(refuse.under("/p"))) {
            client.getData().forPath("/p");
            client.getData().forPath("/p/q/r");
            assertThrows(KeeperException.NoAuthException.class, () -> client.getData().forPath("/p/q"));
            assertEquals(1, rule.hits());
        }
        try (Rule rule = server.addRule(refuse.path("/p/**/r"))) {
            client.getData().forPath("/p/q");
            assertThrows(KeeperException.NoAuthException.class, () -> client.getData().forPath("/p/q/r"));
            assertEquals(1, rule.hits());
        }
        try (Rule rule = server.addRule(refuse.path("/p").after(1).times(1))) {
            client.getData().forPath("/p");
            assertThrows(KeeperException.NoAuthException.class, () -> client.getData().forPath("/p"));
            client.getData().forPath("/p");
            assertEquals(1, rule.hits());
        }
        try (CuratorFramework other = Clients.start(server.getConnectString());
                Rule rule = server.addRule(refuse.path("/p").session(Clients.session(other)).member(0))) {
            client.getData().forPath("/p");
            assertThrows(KeeperException.NoAuthException.class, () -> other.getData().forPath("/p"));
            assertEquals(1, rule.hits());
        }
        try (Rule rule = server.addRule(RuleSpec.refuse("no_auth").session(Clients.id(client)).on(Operation.MULTI))) {
            assertThrows(KeeperException.NoAuthException.class,
                    () -> client.transaction().forOperations(client.transactionOp().check().forPath("/p")));
            assertEquals(1, rule.hits());
        }
    }

    @Test
    void rulesHaveNames() {
        Rule rule = server.addRule(RuleSpec.disconnect().on(Operation.CREATE).named("mine"));
        assertEquals("mine", rule.getName());
        ControlException error = assertThrows(
                ControlException.class, () -> server.addRule(RuleSpec.disconnect().named("mine")));
        assertEquals(ErrorCode.BAD_REQUEST, error.getCode());
        server.removeRules();
        error = assertThrows(ControlException.class, rule::hits);
        assertEquals(ErrorCode.NO_SUCH_RULE, error.getCode());
        error = assertThrows(ControlException.class, rule::remove);
        assertEquals(ErrorCode.NO_SUCH_RULE, error.getCode());
        rule.close();
        error = assertThrows(ControlException.class, () -> server.addRule(RuleSpec.refuse("not_an_error")));
        assertEquals(ErrorCode.BAD_REQUEST, error.getCode());
    }

    @Test
    void rulesWithoutAnEffectAreRefused() {
        RuleSpec rule = RuleSpec.disconnect();
        assertThrows(IllegalArgumentException.class, () -> rule.times(0));
        assertThrows(IllegalArgumentException.class, () -> rule.under("/a/*"));
        assertThrows(IllegalArgumentException.class, () -> rule.under("/a?"));
    }

    @Test
    void aRemovedDelayHoldsNoRequest() throws Exception {
        Rule late = server.addRule(RuleSpec.delay(Duration.ofDays(1)).on(Operation.CREATE));
        CompletableFuture<String> created = CompletableFuture.supplyAsync(() -> {
            try {
                return client.create().forPath("/late");
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        server.until(Condition.rule(late.getName(), 1), WAIT);
        late.close();
        assertEquals("/late", created.get(60, TimeUnit.SECONDS));
    }

    @Test
    void conditionsBecomeTrue() throws Exception {
        long id = Clients.id(client);
        Duration none = Duration.ZERO;
        client.create().creatingParentsIfNeeded().forPath("/a/b");
        server.until(Condition.exists("/a/b"), none);
        server.until(Condition.absent("/c"), none);
        server.until(Condition.children("/a", 1), none);
        server.until(Condition.watches("/a", 0), none);
        server.until(Condition.sessions(1), none);
        server.until(Condition.sessionConnected(id), none);
        ConditionTimeoutException error = assertThrows(
                ConditionTimeoutException.class,
                () -> server.until(Condition.children("/a", 2), Duration.ofMillis(10)));
        assertEquals(ErrorCode.TIMEOUT, error.getCode());
        assertThrows(ConditionTimeoutException.class, () -> server.until(Condition.sessionEnded(id), none));
        assertThrows(ConditionTimeoutException.class, () -> server.until(Condition.sessions(2), none));
        server.stop();
        server.until(Condition.sessionDisconnected(id), none);
    }

    @Test
    void threadsWaitAtTheSameTime() throws Exception {
        List<CompletableFuture<Duration>> waiting = new ArrayList<>();
        for (int number = 0; number < 8; number++) {
            Condition condition = Condition.exists("/n" + number);
            CompletableFuture<Duration> waited = new CompletableFuture<>();
            waiting.add(waited);
            new Thread(() -> waited.complete(server.until(condition, WAIT))).start();
        }
        for (int number = 7; number >= 0; number--) {
            client.create().forPath("/n" + number);
        }
        for (CompletableFuture<Duration> waited : waiting) {
            waited.get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void theJournalListsFaults() throws Exception {
        server.expire(Clients.session(client));
        server.addRule(RuleSpec.disconnect().on(Operation.CREATE).times(1));
        client.create().forPath("/a");
        List<JournalEntry> journal = server.journal();
        assertTrue(journal.size() >= 2, journal.toString());
        for (JournalEntry entry : journal) {
            assertFalse(entry.getFault().isEmpty());
            assertFalse(entry.getAt().isNegative());
        }
    }

    @Test
    void resetEndsTheFaults() throws Exception {
        client.create().forPath("/a");
        Rule rule = server.addRule(RuleSpec.refuse("no_auth"));
        server.pause();
        server.partition();
        server.reset();
        client.getData().forPath("/a");
        server.stop();
        server.reset();
        client.getData().forPath("/a");
        ControlException error = assertThrows(ControlException.class, rule::hits);
        assertEquals(ErrorCode.NO_SUCH_RULE, error.getCode());
    }

    @Test
    void shortSessionTimeoutsWork() throws Exception {
        try (CuratorFramework other = CuratorFrameworkFactory.newClient(
                server.getConnectString(), 1, 20_000, new RetryNTimes(100, 50))) {
            other.start();
            other.blockUntilConnected();
            // Such a session can expire before its server is asked for it.
            assertEquals(200, other.getZookeeperClient().getZooKeeper().getSessionTimeout());
        }
    }

    @Test
    void aDirectoryKeepsTheNodes(@TempDir Path directory) throws Exception {
        ZkTestServer.Builder builder = ZkTestServer.builder().dataDirectory(directory);
        for (int round = 0; round < 2; round++) {
            try (ZkTestServer kept = builder.launch();
                    CuratorFramework other = Clients.start(kept.getConnectString())) {
                assertEquals(round, other.getChildren().forPath("/").size() - 1);
                other.create().forPath("/n" + round);
            }
        }
    }

    @Test
    void aPortInUseAndAWrongOptionAreReported() {
        ServerStartException error = assertThrows(
                ServerStartException.class, () -> ZkTestServer.builder().ports(server.getPort()).launch());
        assertTrue(error.getMessage().contains("in use"), error.getMessage());
        ZkTestServer.Builder wrong = ZkTestServer.builder().options("--no-such-option");
        error = assertThrows(ServerStartException.class, wrong::launch);
        assertTrue(error.getMessage().contains("--no-such-option"), error.getMessage());
        ZkTestServer.Builder old = ZkTestServer.builder().zooKeeperVersion("2.0");
        error = assertThrows(ServerStartException.class, old::launch);
        assertTrue(error.getMessage().contains("2.0"), error.getMessage());
    }

    @Test
    void aClosedServerRefusesCalls() {
        ZkTestServer closed = new ZkTestServer();
        Rule rule = closed.addRule(RuleSpec.disconnect().on(Operation.CREATE));
        closed.close();
        closed.close();
        rule.close();
        assertFalse(closed.isRunning());
        ServerGoneException error = assertThrows(ServerGoneException.class, closed::info);
        assertEquals("info: the server is closed", error.getMessage());
        assertThrows(ConnectException.class, () -> new Socket("127.0.0.1", closed.getPort()).close());
    }

    @Test
    void aServerThatWasKilledIsReported() throws Exception {
        try (ZkTestServer killed = new ZkTestServer()) {
            ProcessHandle process = ProcessHandle.of(killed.getPid()).orElseThrow();
            process.destroyForcibly();
            process.onExit().get(30, TimeUnit.SECONDS);
            ServerGoneException error = assertThrows(ServerGoneException.class, killed::info);
            assertTrue(error.getMessage().contains("exit code 137"), error.getMessage());
        }
    }

    @Test
    void aClientWithoutSessionIsRefused() {
        assertThrows(IllegalStateException.class, () -> server.expire(() -> 0));
        assertThrows(IllegalStateException.class, () -> server.disconnect(() -> {
            throw new IOException("not connected");
        }));
    }
}
