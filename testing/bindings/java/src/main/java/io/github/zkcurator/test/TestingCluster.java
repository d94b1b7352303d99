package io.github.zkcurator.test;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * An ensemble with the constructors and methods of the class of the same name in Apache Curator, so that
 * tests change only the import. {@link #getZkTestCluster} returns the faults.
 *
 * <p>As in Curator, {@link #start} starts the members. The only difference for callers is
 * {@link #findConnectionInstance}, because this package does not need the classes of ZooKeeper.
 */
public class TestingCluster implements Closeable {
    private final List<TestingZooKeeperServer> servers;

    /**
     * Creates an ensemble on any free ports.
     *
     * @param instanceQty the number of members, from 1 to 99
     */
    public TestingCluster(int instanceQty) {
        servers = TestingZooKeeperServer.of(Values.atLeast(1, "start", "the number of members", instanceQty));
    }

    /**
     * Creates an ensemble.
     *
     * @param specs the settings of each member, which can differ in port, directory and id
     * @throws IllegalArgumentException if they differ in more, or have a property that is not supported
     */
    public TestingCluster(InstanceSpec... specs) {
        this(Arrays.asList(specs));
    }

    /**
     * Creates an ensemble.
     *
     * @param specs the settings of each member, which can differ in port, directory and id
     * @throws IllegalArgumentException if they differ in more, or have a property that is not supported
     */
    public TestingCluster(Collection<InstanceSpec> specs) {
        servers = TestingZooKeeperServer.of(new ArrayList<>(specs));
    }

    /**
     * Creates an ensemble.
     *
     * @param specs the settings of each member, with the settings of all members as it sees them, which
     *     must be the same for each
     * @throws IllegalArgumentException if members see different ensembles, differ in more than port,
     *     directory and id, or have a property that is not supported
     */
    public TestingCluster(Map<InstanceSpec, Collection<InstanceSpec>> specs) {
        this(members(specs));
    }

    private static Collection<InstanceSpec> members(Map<InstanceSpec, Collection<InstanceSpec>> specs) {
        List<InstanceSpec> members = new ArrayList<>(specs.keySet());
        specs.forEach((member, seen) -> {
            if (seen.size() != members.size() || !seen.containsAll(members)) {
                throw new IllegalArgumentException("start: " + member + " sees another ensemble than " + members);
            }
        });
        return members;
    }

    /**
     * Returns the ensemble with its faults. This method is not in Curator. The members have the numbers of
     * {@link #getServers}.
     *
     * @return the ensemble of this object
     */
    public ZkTestCluster getZkTestCluster() {
        return servers.get(0).server();
    }

    /**
     * Returns the settings of all members.
     *
     * @return a new collection, in the order of the members
     */
    public Collection<InstanceSpec> getInstances() {
        List<InstanceSpec> specs = new ArrayList<>();
        servers.forEach(server -> specs.add(server.getInstanceSpec()));
        return specs;
    }

    /**
     * Returns all members.
     *
     * @return a new list
     */
    public List<TestingZooKeeperServer> getServers() {
        return new ArrayList<>(servers);
    }

    /**
     * Returns the connect string for clients.
     *
     * @return the addresses of all members, separated by commas
     */
    public String getConnectString() {
        List<String> addresses = new ArrayList<>();
        servers.forEach(server -> addresses.add(server.getInstanceSpec().getConnectString()));
        return String.join(",", addresses);
    }

    /**
     * Starts all members.
     *
     * @throws Exception if a member cannot start
     */
    public void start() throws Exception {
        for (TestingZooKeeperServer server : servers) {
            server.start();
        }
    }

    /**
     * Stops all members. Nodes and sessions stay.
     *
     * @throws IOException never
     */
    public void stop() throws IOException {
        for (TestingZooKeeperServer server : servers) {
            server.stop();
        }
    }

    /**
     * Ends the ensemble.
     *
     * @throws IOException if a directory cannot be deleted
     */
    @Override
    public void close() throws IOException {
        for (TestingZooKeeperServer server : servers) {
            server.close();
        }
    }

    /**
     * Stops a member.
     *
     * @param instance the settings of the member
     * @return {@code true} if the ensemble has this member
     * @throws Exception never
     */
    public boolean killServer(InstanceSpec instance) throws Exception {
        TestingZooKeeperServer server = find(instance);
        if (server != null) {
            server.kill();
        }
        return server != null;
    }

    /**
     * Stops a member if it runs, and starts it.
     *
     * @param instance the settings of the member
     * @return {@code true} if the ensemble has this member
     * @throws Exception if the member cannot start
     */
    public boolean restartServer(InstanceSpec instance) throws Exception {
        TestingZooKeeperServer server = find(instance);
        if (server != null) {
            server.restart();
        }
        return server != null;
    }

    private TestingZooKeeperServer find(InstanceSpec instance) {
        for (TestingZooKeeperServer server : servers) {
            if (server.getInstanceSpec().equals(instance)) {
                return server;
            }
        }
        return null;
    }

    /**
     * Returns the member that a client is connected to. Curator's method takes a {@code ZooKeeper}:
     * {@code findConnectionInstance(zooKeeper)} becomes
     * {@code findConnectionInstance(zooKeeper::getSessionId)}.
     *
     * @param client the client
     * @return the settings of the member; {@code null} if the client has no connection
     * @throws Exception if the client has no session
     */
    public InstanceSpec findConnectionInstance(HasSession client) throws Exception {
        OptionalInt member = getZkTestCluster().connectedMember(client);
        return member.isPresent() ? servers.get(member.getAsInt()).getInstanceSpec() : null;
    }

    /**
     * Creates settings with the defaults, and ids from 1.
     *
     * @param instanceQty the number of members
     * @return the settings of each member, with the settings of all members
     */
    public static Map<InstanceSpec, Collection<InstanceSpec>> makeSpecs(int instanceQty) {
        return makeSpecs(instanceQty, true);
    }

    /**
     * Creates settings with the defaults.
     *
     * @param instanceQty the number of members
     * @param resetServerIds {@code true} to give ids from 1
     * @return the settings of each member, with the settings of all members
     */
    public static Map<InstanceSpec, Collection<InstanceSpec>> makeSpecs(int instanceQty, boolean resetServerIds) {
        if (resetServerIds) {
            InstanceSpec.reset();
        }
        List<InstanceSpec> specs = new ArrayList<>();
        for (int index = 0; index < instanceQty; index++) {
            specs.add(InstanceSpec.newInstanceSpec());
        }
        Map<InstanceSpec, Collection<InstanceSpec>> map = new LinkedHashMap<>();
        specs.forEach(spec -> map.put(spec, specs));
        return map;
    }
}
