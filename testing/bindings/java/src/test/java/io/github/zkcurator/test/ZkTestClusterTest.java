package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The calls about members of an ensemble. */
@Timeout(120)
class ZkTestClusterTest {
    private static final Duration WAIT = Duration.ofSeconds(30);

    private ZkTestCluster cluster;

    @BeforeEach
    void start() {
        cluster = new ZkTestCluster(3);
        cluster.until(Condition.leader(true), WAIT);
    }

    @AfterEach
    void end() {
        cluster.close();
    }

    private String role(int member) {
        return cluster.info().getMembers().get(member).getRole();
    }

    /** Creates a node. A repetition after a lost connection can find it. */
    private static void create(CuratorFramework client, String path) throws Exception {
        try {
            client.create().forPath(path);
        } catch (KeeperException.NodeExistsException error) {
            assertEquals(path, error.getPath());
        }
    }

    private int follower() {
        return (cluster.leader().orElseThrow() + 1) % 3;
    }

    @Test
    void anEnsembleHasALeaderAndFollowers() {
        assertEquals(3, cluster.getMembers());
        assertEquals(3, cluster.getConnectString().split(",").length);
        assertEquals(cluster.getConnectString(), cluster.info().getMembers().stream()
                .map(ServerInfo.Member::getAddress).collect(Collectors.joining(",")));
        assertEquals("leader", role(cluster.leader().orElseThrow()));
        assertEquals("follower", role(follower()));
    }

    @Test
    void membersStopAndStart() throws Exception {
        int stopped = follower();
        try (CuratorFramework client = Clients.start(cluster.getConnectString(stopped))) {
            assertEquals(OptionalInt.of(stopped), cluster.connectedMember(Clients.session(client)));
            cluster.stop(stopped);
            assertEquals("stopped", role(stopped));
            assertFalse(cluster.connectedMember(() -> 0x1234).isPresent());
            cluster.start(stopped);
            cluster.until(Condition.sessionConnected(Clients.id(client)), WAIT);
            cluster.restart(stopped);
            cluster.until(Condition.sessionConnected(Clients.id(client)), WAIT);
        }
    }

    @Test
    void withoutAQuorumThereIsNoLeader() {
        cluster.stop(0);
        cluster.stop(1);
        cluster.until(Condition.leader(false), WAIT);
        assertFalse(cluster.leader().isPresent());
        cluster.start(0);
        cluster.until(Condition.leader(true), WAIT);
    }

    @Test
    void aSplitLeavesTheMajorityALeader() throws Exception {
        int leader = cluster.leader().orElseThrow();
        int[] others = {(leader + 1) % 3, (leader + 2) % 3};
        try (CuratorFramework client =
                Clients.start(cluster.getConnectString(others[0]) + "," + cluster.getConnectString(others[1]))) {
            cluster.split(new int[] {leader}, others);
            client.create().forPath("/majority");
            assertNotEquals(OptionalInt.of(leader), cluster.leader());
            cluster.heal();
            cluster.until(Condition.exists("/majority"), WAIT);
        }
        ControlException error = assertThrows(ControlException.class, () -> cluster.split(new int[] {0, 7}));
        assertEquals(ErrorCode.NO_SUCH_MEMBER, error.getCode());
    }

    @Test
    void aLaggingMemberHasAnOlderState() throws Exception {
        int late = follower();
        int leader = cluster.leader().orElseThrow();
        try (CuratorFramework client = Clients.start(cluster.getConnectString(leader))) {
            Lag lag = cluster.lag(late);
            client.create().forPath("/new");
            assertTrue(cluster.probe(leader).getNode("/new").isPresent());
            assertTrue(cluster.probe().getNode("/new").isPresent());
            assertFalse(cluster.probe(late).getNode("/new").isPresent());
            assertTrue(cluster.info().getMembers().get(late).getBehind() > 0);
            lag.end();
            ControlException error = assertThrows(ControlException.class, lag::end);
            assertEquals(ErrorCode.NO_SUCH_LAG, error.getCode());
            lag.close();
            try (Lag slow = cluster.lag(late, Duration.ofMinutes(10))) {
                client.create().forPath("/newer");
                assertFalse(cluster.probe(late).getNode("/newer").isPresent());
            }
            try (CuratorFramework reader = Clients.start(cluster.getConnectString(late))) {
                reader.sync().forPath("/newer");
                reader.getData().forPath("/newer");
            }
        }
    }

    @Test
    void theLeaderChanges() {
        int before = cluster.leader().orElseThrow();
        int changed = cluster.changeLeader();
        assertNotEquals(before, changed);
        assertEquals(OptionalInt.of(changed), cluster.leader());
        assertEquals(before, cluster.changeLeader(before));
        assertEquals(OptionalInt.of(before), cluster.leader());
        int other = changed;
        cluster.stop(other);
        ControlException error = assertThrows(ControlException.class, () -> cluster.changeLeader(other));
        assertEquals(ErrorCode.FAILED, error.getCode());
    }

    @Test
    void oneMemberIsNoEnsemble() {
        try (ZkTestCluster single = new ZkTestCluster(1)) {
            assertEquals("standalone", single.info().getMembers().get(0).getRole());
            for (Runnable call : List.<Runnable>of(
                    () -> single.split(new int[] {0}), () -> single.lag(0), single::changeLeader)) {
                assertEquals(ErrorCode.UNSUPPORTED, assertThrows(ControlException.class, call::run).getCode());
            }
        }
    }

    @Test
    void faultsOfOneMemberMoveItsClients() throws Exception {
        int bad = follower();
        // A client notices after two thirds of its session timeout that a server hangs.
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(
                cluster.getConnectString(), 1500, 20_000, new RetryNTimes(100, 50))) {
            client.start();
            cluster.pause(bad);
            create(client, "/a");
            assertNotEquals(OptionalInt.of(bad), cluster.leader());
            cluster.resume(bad);
            cluster.partition(bad);
            create(client, "/b");
            cluster.heal(bad);
            cluster.setReadOnly(bad, true);
            create(client, "/c");
            cluster.setReadOnly(bad, false);
            cluster.until(Condition.children("/", 4), WAIT); // and /zookeeper
        }
    }

    @Test
    void rulesOfOneMember() throws Exception {
        try (Rule rule = cluster.addRule(RuleSpec.refuse("no_auth").on(Operation.GET_DATA).path("/").member(2));
                CuratorFramework one = Clients.start(cluster.getConnectString(1));
                CuratorFramework two = Clients.start(cluster.getConnectString(2))) {
            one.getData().forPath("/");
            assertThrows(KeeperException.NoAuthException.class, () -> two.getData().forPath("/"));
            assertEquals(1, rule.hits());
        }
    }

    @Test
    void anAbsentMemberIsRefused() {
        ControlException error = assertThrows(ControlException.class, () -> cluster.stop(3));
        assertEquals(ErrorCode.NO_SUCH_MEMBER, error.getCode());
        error = assertThrows(ControlException.class, () -> cluster.probe(3));
        assertEquals(ErrorCode.NO_SUCH_MEMBER, error.getCode());
        assertThrows(IndexOutOfBoundsException.class, () -> cluster.getConnectString(3));
    }
}
