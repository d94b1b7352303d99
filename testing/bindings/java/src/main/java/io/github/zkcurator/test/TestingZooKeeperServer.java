package io.github.zkcurator.test;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A member of a {@link TestingCluster}, or the server of a {@link TestingServer}, like the class of the
 * same name in Apache Curator.
 */
public class TestingZooKeeperServer implements Closeable {
    private enum State {
        LATENT,
        STARTED,
        STOPPED,
        CLOSED
    }

    private final Ensemble ensemble;
    private final int member;
    private State state = State.LATENT;

    private TestingZooKeeperServer(Ensemble ensemble, int member) {
        this.ensemble = ensemble;
        this.member = member;
    }

    /** Starts a process with a member for each of the settings. No member accepts clients yet. */
    static List<TestingZooKeeperServer> of(List<InstanceSpec> specs) {
        return of(launch(specs), specs);
    }

    /** Starts a process with members that choose their own ports. No member accepts clients yet. */
    static List<TestingZooKeeperServer> of(int members) {
        ZkTestCluster server = new ZkTestCluster(members);
        List<InstanceSpec> specs = new ArrayList<>();
        for (String address : server.addresses()) {
            specs.add(InstanceSpec.of(address));
        }
        return of(server, specs);
    }

    private static List<TestingZooKeeperServer> of(ZkTestCluster server, List<InstanceSpec> specs) {
        boolean stopped = false;
        try {
            server.stop();
            stopped = true;
        } finally {
            if (!stopped) {
                server.close();
            }
        }
        Ensemble ensemble = new Ensemble(server, specs);
        List<TestingZooKeeperServer> servers = new ArrayList<>();
        for (int member = 0; member < specs.size(); member++) {
            servers.add(new TestingZooKeeperServer(ensemble, member));
        }
        return Collections.unmodifiableList(servers);
    }

    private static ZkTestCluster launch(List<InstanceSpec> specs) {
        if (specs.isEmpty()) {
            throw new IllegalArgumentException("start: there are no members");
        }
        Map<String, String> options = Options.of(specs.get(0));
        int[] ports = new int[specs.size()];
        for (int member = 0; member < ports.length; member++) {
            ports[member] = specs.get(member).getPort();
            if (!Options.of(specs.get(member)).equals(options)) {
                throw new IllegalArgumentException("start: the members differ in more than port and directory");
            }
        }
        ZkTestServer.Builder builder = ZkTestServer.builder().ports(ports);
        options.forEach(builder::options);
        InstanceSpec first = specs.get(0);
        if (ports.length > 1 || first.deleteDataDirectoryOnClose()) {
            return builder.launchCluster(ports.length);
        }
        boolean created = first.hasNoDirectory();
        first.getDataDirectory().mkdirs();
        builder.dataDirectory(first.getDataDirectory().toPath());
        boolean launched = false;
        try {
            ZkTestCluster server = builder.launchCluster(ports.length);
            launched = true;
            return server;
        } finally {
            if (created && !launched) {
                first.discardDataDirectory();
            }
        }
    }

    final ZkTestCluster server() {
        return ensemble.server;
    }

    /**
     * Returns the settings of all members.
     *
     * @return the settings in the order of the members
     */
    public Collection<InstanceSpec> getInstanceSpecs() {
        return ensemble.specs;
    }

    /**
     * Returns the settings of this member.
     *
     * @return the settings
     */
    public InstanceSpec getInstanceSpec() {
        return ensemble.specs.get(member);
    }

    /**
     * Starts the member. Has no effect after the first call; {@link #restart} starts a member that was
     * stopped.
     *
     * @throws Exception if the member cannot start
     */
    public synchronized void start() throws Exception {
        if (state == State.LATENT) {
            server().control().call("start", "member", member);
            state = State.STARTED;
        }
    }

    /**
     * Stops the member. Its nodes and sessions stay. Has no effect if it does not run.
     *
     * @throws IOException never
     */
    public synchronized void stop() throws IOException {
        if (state == State.STARTED) {
            server().control().call("stop", "member", member);
            state = State.STOPPED;
        }
    }

    /** Stops the member, in any state except closed. */
    public synchronized void kill() {
        if (state != State.CLOSED) {
            server().control().call("stop", "member", member);
            state = State.STOPPED;
        }
    }

    /**
     * Stops the member if it runs, and starts it.
     *
     * @throws IllegalStateException if it is closed
     * @throws Exception if the member cannot start
     */
    public synchronized void restart() throws Exception {
        if (state == State.CLOSED) {
            throw new IllegalStateException("restart: the member is closed");
        }
        stop();
        state = State.LATENT;
        start();
    }

    /**
     * Ends the member, and deletes its directory if its settings say so. The process ends when
     * all members are closed. Has no effect if it was called before.
     *
     * @throws IOException if the directory cannot be deleted
     */
    @Override
    public synchronized void close() throws IOException {
        if (state == State.CLOSED) {
            return;
        }
        boolean runs = state == State.STARTED;
        state = State.CLOSED;
        if (ensemble.open.decrementAndGet() == 0) {
            server().close();
        } else if (runs && server().isRunning()) {
            server().control().call("stop", "member", member);
        }
        if (getInstanceSpec().deleteDataDirectoryOnClose()) {
            getInstanceSpec().deleteDataDirectory();
        }
    }

    /** The process of the members. */
    private static final class Ensemble {
        final ZkTestCluster server;
        final List<InstanceSpec> specs;
        final AtomicInteger open;

        Ensemble(ZkTestCluster server, List<InstanceSpec> specs) {
            this.server = server;
            this.specs = Collections.unmodifiableList(new ArrayList<>(specs));
            open = new AtomicInteger(specs.size());
        }
    }

    /** The options of the program for the settings that all members share. */
    private static final class Options {
        private Options() {}

        static Map<String, String> of(InstanceSpec spec) {
            Map<String, String> options = new HashMap<>();
            if (spec.getTickTime() > 0) {
                options.put("--tick-time", Integer.toString(spec.getTickTime()));
                // As in Apache ZooKeeper, unlike the defaults of the builder.
                options.put("--min-session-timeout", Long.toString(2L * spec.getTickTime()));
                options.put("--max-session-timeout", Long.toString(20L * spec.getTickTime()));
            }
            if (spec.getMaxClientCnxns() > 0) {
                options.put("--max-client-connections", Integer.toString(spec.getMaxClientCnxns()));
            }
            if (!spec.getHostname().equals(InstanceSpec.LOCALHOST)) {
                options.put("--host", spec.getHostname());
            }
            spec.getCustomProperties().forEach((name, value) -> property(options, name, String.valueOf(value)));
            return options;
        }

        private static void property(Map<String, String> options, String name, String value) {
            if (name.equals("minSessionTimeout")) {
                options.put("--min-session-timeout", value);
            } else if (name.equals("maxSessionTimeout")) {
                options.put("--max-session-timeout", value);
            } else if (!name.equals("extendedTypesEnabled") || !value.equals("true")) {
                // Nodes with a time to live are always supported.
                throw new IllegalArgumentException("start: the property " + name + "=" + value + " is not supported");
            }
        }
    }
}
