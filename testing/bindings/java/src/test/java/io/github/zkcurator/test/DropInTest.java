package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.ConnectException;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Settings, and refused calls, which are not in the program that also runs with the classes of Curator. */
@Timeout(120)
@Execution(ExecutionMode.SAME_THREAD) // the ids of servers are a counter of the class
class DropInTest {
    @TempDir
    Path directory;

    private static void refusesConnections(int port) {
        assertThrows(ConnectException.class, () -> new Socket("127.0.0.1", port).close());
    }

    private static void connects(int port) throws Exception {
        new Socket("127.0.0.1", port).close();
    }

    private static String role(TestingServer server) {
        return server.getZkTestServer().info().getMembers().get(0).getRole();
    }

    private interface Launch {
        TestingServer on(int port) throws Exception;
    }

    /** Launches a server on a port that is free. Another program can take the port before, so others are tried. */
    private static TestingServer onFreePort(Launch launch) throws Exception {
        for (int attempt = 1; ; attempt++) {
            int port = InstanceSpec.getRandomPort();
            try {
                TestingServer server = launch.on(port);
                assertEquals(port, server.getPort());
                return server;
            } catch (ServerStartException error) {
                if (attempt == 20) {
                    throw error;
                }
            }
        }
    }

    @Test
    void aServerHasItsPortBeforeItStarts() throws Exception {
        try (TestingServer server = new TestingServer(false)) {
            int port = server.getPort();
            refusesConnections(port);
            server.start();
            connects(port);
            assertEquals("127.0.0.1:" + port, server.getConnectString());
            server.stop();
            refusesConnections(port);
            // As in Curator, only `restart` starts it again.
            server.start();
            refusesConnections(port);
            server.restart();
            connects(port);
        }
    }

    @Test
    void everyConstructor() throws Exception {
        TestingServer closed;
        try (TestingServer server = onFreePort(TestingServer::new)) {
            connects(server.getPort());
            closed = server;
        }
        assertFalse(closed.getZkTestServer().isRunning());
        try (TestingServer server = onFreePort(port -> new TestingServer(port, false))) {
            assertEquals("stopped", role(server));
        }
        File temporary = directory.resolve("given").toFile();
        try (TestingServer server = onFreePort(port -> {
            assertTrue(temporary.isDirectory() || temporary.mkdir());
            return new TestingServer(port, temporary);
        })) {
            assertEquals(temporary, server.getTempDirectory());
            connects(server.getPort());
        }
        assertFalse(temporary.exists());
        File created;
        try (TestingServer server = new TestingServer(-1, null, false)) {
            assertEquals("stopped", role(server));
            created = server.getTempDirectory();
            assertTrue(created.isDirectory());
            assertEquals(created, server.getTempDirectory());
        }
        assertFalse(created.exists());
    }

    @Test
    void aPortInUseFailsTheConstructor() throws Exception {
        try (TestingServer server = new TestingServer()) {
            assertThrows(ServerStartException.class, () -> new TestingServer(server.getPort()));
            for (boolean delete : new boolean[] {true, false}) {
                InstanceSpec spec = new InstanceSpec(null, server.getPort(), 0, 0, delete, 1);
                assertThrows(ServerStartException.class, () -> new TestingServer(spec, true));
                assertTrue(spec.hasNoDirectory());
            }
        }
    }

    /** Returns the session timeout that a client is given. Its server can have ended a short session since. */
    private static Duration timeout(TestingServer server, int wanted) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(
                server.getConnectString(), wanted, 20_000, new RetryNTimes(100, 50))) {
            client.start();
            client.blockUntilConnected();
            return Duration.ofMillis(client.getZookeeperClient().getZooKeeper().getSessionTimeout());
        }
    }

    @Test
    void theTickLimitsSessionTimeouts() throws Exception {
        Map<String, Object> properties = Map.of("minSessionTimeout", 15_000, "extendedTypesEnabled", true);
        try (TestingServer server = onFreePort(port -> new TestingServer(
                new InstanceSpec(null, port, 0, 0, true, -1, 1000, 7, properties, "localhost"), true))) {
            assertEquals("localhost:" + server.getPort(), server.getConnectString());
            assertEquals(Duration.ofSeconds(15), timeout(server, 1));
            assertEquals(Duration.ofSeconds(20), timeout(server, 60_000));
        }
        try (TestingServer server = new TestingServer()) {
            assertEquals(Duration.ofMillis(200), timeout(server, 1));
            assertEquals(Duration.ofSeconds(60), timeout(server, 100_000));
        }
    }

    @Test
    void aDirectoryThatIsNotDeletedKeepsTheNodes() throws Exception {
        File kept = directory.resolve("kept").toFile();
        for (int round = 0; round < 2; round++) {
            try (TestingServer server = onFreePort(port ->
                            new TestingServer(new InstanceSpec(kept, port, 0, 0, false, 5), true));
                    CuratorFramework client = Clients.start(server.getConnectString())) {
                assertEquals(round, client.getChildren().forPath("/").size() - 1);
                client.create().forPath("/n" + round);
            }
        }
        assertTrue(kept.isDirectory());
    }

    @Test
    void unknownPropertiesAreRefused() {
        InstanceSpec spec = new InstanceSpec(null, 0, 0, 0, true, 1, -1, -1, Map.of("authProvider.1", "x"));
        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> new TestingServer(spec, true));
        assertEquals("start: the property authProvider.1=x is not supported", error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> new TestingCluster(spec, InstanceSpec.newInstanceSpec()));
        assertThrows(IllegalArgumentException.class, () -> new TestingCluster(Collections.emptyList()));
        assertThrows(IllegalArgumentException.class, () -> new TestingCluster(0));
    }

    @Test
    void specsAreEqualByAddress() {
        InstanceSpec spec = new InstanceSpec(directory.toFile(), 2181, 1, 2, true, 3);
        assertEquals(spec, new InstanceSpec(null, 2181, 4, 5, false, 6));
        assertEquals(spec.hashCode(), new InstanceSpec(null, 2181, 4, 5, false, 6).hashCode());
        assertNotEquals(spec, new InstanceSpec(directory.toFile(), 2182, 1, 2, true, 3));
        assertEquals(3, spec.getServerId());
        InstanceSpec.reset();
        assertEquals(1, InstanceSpec.newInstanceSpec().getServerId());
        assertEquals(2, InstanceSpec.newInstanceSpec().getServerId());
    }

    @Test
    void aMemberOfAClusterDiesAndComesBack() throws Exception {
        try (TestingCluster cluster = new TestingCluster(3)) {
            refusesConnections(cluster.getInstances().iterator().next().getPort());
            cluster.start();
            ZkTestCluster faults = cluster.getZkTestCluster();
            faults.until(Condition.leader(true));
            try (CuratorFramework client = Clients.start(cluster.getConnectString())) {
                client.create().forPath("/a");
                InstanceSpec instance = cluster.findConnectionInstance(Clients.session(client));
                assertTrue(cluster.getInstances().contains(instance));
                assertTrue(cluster.killServer(instance));
                refusesConnections(instance.getPort());
                client.create().forPath("/b");
                assertNotEquals(instance, cluster.findConnectionInstance(Clients.session(client)));
                assertTrue(cluster.restartServer(instance));
                connects(instance.getPort());
                assertFalse(cluster.killServer(InstanceSpec.newInstanceSpec()));
                assertFalse(cluster.restartServer(InstanceSpec.newInstanceSpec()));
                cluster.stop();
                refusesConnections(instance.getPort());
            }
            TestingZooKeeperServer first = cluster.getServers().get(0);
            first.close();
            assertThrows(IllegalStateException.class, first::restart);
            assertTrue(faults.isRunning());
        }
    }

    @Test
    void clustersOfSpecs() throws Exception {
        Map<InstanceSpec, Collection<InstanceSpec>> specs = TestingCluster.makeSpecs(3);
        List<InstanceSpec> members = new ArrayList<>(specs.keySet());
        try (TestingCluster cluster = new TestingCluster(specs)) {
            assertEquals(members, cluster.getInstances());
            assertEquals(members, cluster.getServers().get(1).getInstanceSpecs());
            cluster.start();
            cluster.getZkTestCluster().until(Condition.leader(true));
            connects(members.get(2).getPort());
        }
        try (TestingCluster cluster = new TestingCluster(members.toArray(new InstanceSpec[0]))) {
            assertEquals(members, cluster.getInstances());
        }
        specs.put(members.get(0), List.of(members.get(0)));
        assertThrows(IllegalArgumentException.class, () -> new TestingCluster(specs));
    }
}
