package io.github.zkcurator.test;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A ZooKeeper server in memory, in a process of its own, and the faults that a test can cause in it.
 *
 * <pre>{@code
 * try (ZkTestServer server = new ZkTestServer();
 *         CuratorFramework client = CuratorFrameworkFactory.newClient(server.getConnectString(), retry)) {
 *     client.start();
 *     server.expire(() -> client.getZookeeperClient().getZooKeeper().getSessionId());
 * }
 * }</pre>
 *
 * <p>The server ends with {@link #close}, and when this virtual machine ends in any way. The defaults are
 * those of tests: any free port, a tick of 100 ms, and session timeouts from 200 ms to 60 s. Apache
 * ZooKeeper has a tick of 2 s, so the shortest timeout is 4 s there.
 *
 * <p>All methods can be called from many threads. They throw {@link ServerGoneException} after the server
 * is closed, when the server has ended, when the thread is interrupted, and when no response arrives
 * within {@link Builder#callTimeout}. They throw {@link ControlException} if the server refuses the call.
 */
public class ZkTestServer implements AutoCloseable {
    /** The longest wait of {@link #until(Condition)}: 30 s. */
    public static final Duration DEFAULT_WAIT = Duration.ofSeconds(30);

    private final ServerProcess process;
    private final ControlClient control;

    /**
     * Starts a server with the defaults.
     *
     * @throws ServerStartException if the server cannot start
     */
    public ZkTestServer() {
        this(builder());
    }

    /**
     * Starts a server.
     *
     * @param builder the settings; later changes have no effect
     * @throws ServerStartException if the server cannot start
     */
    public ZkTestServer(Builder builder) {
        this(builder, 1);
    }

    ZkTestServer(Builder builder, int members) {
        List<String> options = builder.options(members);
        process = new ServerProcess(builder.program(), options, builder.startTimeout);
        control = process.connect(builder.callTimeout);
        boolean ready = false;
        try {
            control.call("info");
            ready = true;
        } finally {
            if (!ready) {
                close();
            }
        }
    }

    /**
     * Returns the default settings.
     *
     * @return a new builder
     */
    public static Builder builder() {
        return new Builder();
    }

    final ControlClient control() {
        return control;
    }

    final List<String> addresses() {
        return process.addresses();
    }

    /**
     * Returns the connect string for clients.
     *
     * @return the addresses of all members, separated by commas
     */
    public final String getConnectString() {
        return String.join(",", process.addresses());
    }

    /**
     * Returns the port of the first member.
     *
     * @return the port
     */
    public final int getPort() {
        return ServerProcess.port(process.addresses().get(0));
    }

    /**
     * Returns the id of the process.
     *
     * @return the id that the operating system has given
     */
    public final long getPid() {
        return process.pid();
    }

    /**
     * Returns {@code true} if the process runs, even if all members are stopped.
     *
     * @return {@code false} after {@link #close}, or if the process has ended otherwise
     */
    public final boolean isRunning() {
        return process.isAlive();
    }

    /**
     * Returns the addresses and the roles of all members.
     *
     * @return the present state
     */
    public final ServerInfo info() {
        return new ServerInfo(control.call("info"));
    }

    /**
     * Stops all members: connections end, the ports are closed, nodes and sessions stay. On Linux the
     * server reserves the ports until it starts again.
     */
    public final void stop() {
        control.call("stop");
    }

    /**
     * Starts all members on the same ports. Has no effect on members that run.
     *
     * @throws ControlException with {@link ErrorCode#FAILED} if a port is in use
     */
    public final void start() {
        control.call("start");
    }

    /**
     * Ends all connections and starts all members again. Nodes and sessions stay.
     *
     * @throws ControlException with {@link ErrorCode#FAILED} if a port is in use
     */
    public final void restart() {
        control.call("restart");
    }

    /**
     * Makes all members hang: they accept connections and bytes, and answer nothing. Sessions do not
     * expire in the pause. {@link #resume} ends it.
     */
    public final void pause() {
        control.call("pause");
    }

    /** Ends {@link #pause} of all members. */
    public final void resume() {
        control.call("resume");
    }

    /**
     * Cuts the network between all members and their clients: bytes wait, and sessions expire.
     * {@link #heal} ends it.
     */
    public final void partition() {
        control.call("partition");
    }

    /** Ends every partition and every split. */
    public final void heal() {
        control.call("heal");
    }

    /**
     * Makes all members serve as without a quorum, or ends that. Only clients that allow read-only
     * servers can connect.
     *
     * @param readOnly {@code true} for read-only
     */
    public final void setReadOnly(boolean readOnly) {
        control.call("set_read_only", "read_only", readOnly);
    }

    /**
     * Ends a session as if its timeout had passed: its ephemeral nodes are deleted.
     *
     * @param sessionId the id of the session
     * @throws ControlException with {@link ErrorCode#NO_SUCH_SESSION} if it has ended
     */
    public final void expire(long sessionId) {
        control.call("expire", "session", Values.id(sessionId));
    }

    /**
     * Ends the present session of a client as if its timeout had passed.
     *
     * @param client the client
     * @throws ControlException with {@link ErrorCode#NO_SUCH_SESSION} if it has ended
     * @throws IllegalStateException if the client has no session
     */
    public final void expire(HasSession client) {
        control.call("expire", "session", Values.session("expire", client));
    }

    /**
     * Closes the connection of a session. The session stays, and its client reconnects.
     *
     * @param sessionId the id of the session
     * @return {@code true} if it had a connection
     * @throws ControlException with {@link ErrorCode#NO_SUCH_SESSION} if the session has ended
     */
    public final boolean disconnect(long sessionId) {
        return control.call("disconnect", "session", Values.id(sessionId)).integer("connections") > 0;
    }

    /**
     * Closes the connection of the present session of a client. The session stays, and the client
     * reconnects.
     *
     * @param client the client
     * @return {@code true} if it had a connection
     * @throws ControlException with {@link ErrorCode#NO_SUCH_SESSION} if the session has ended
     * @throws IllegalStateException if the client has no session
     */
    public final boolean disconnect(HasSession client) {
        return control.call("disconnect", "session", Values.session("disconnect", client)).integer("connections") > 0;
    }

    /**
     * Closes all connections. The sessions stay.
     *
     * @return the number of connections that were closed
     */
    public final long disconnectAll() {
        return control.call("disconnect").integer("connections");
    }

    /**
     * Lets time pass for sessions, containers and nodes with a time to live. Clients do not notice.
     *
     * @param by from 0 to 4,294,967,295 ms, rounded up to milliseconds
     * @throws IllegalArgumentException if the duration is out of range
     */
    public final void advance(Duration by) {
        control.call("advance", "by_ms", Values.millis("advance", by));
    }

    /**
     * Changes the clock of the times in the metadata of nodes.
     *
     * @param by from -4,294,967,295 to 4,294,967,295 ms, in whole milliseconds
     * @throws ControlException with {@link ErrorCode#BAD_REQUEST} if the duration is out of range
     */
    public final void shiftWallClock(Duration by) {
        control.call("shift_wall_clock", "by_ms", by.toMillis());
    }

    /**
     * Sets the version of the data of a node, for example close to its overflow.
     *
     * @param path the path of the node
     * @param version the version
     * @throws ControlException with {@link ErrorCode#NO_SUCH_NODE} if the node does not exist
     */
    public final void setVersion(String path, int version) {
        control.call("set_version", "path", path, "version", version);
    }

    /**
     * Sets the next sequence number of the children of a node.
     *
     * @param path the path of the parent
     * @param next the number of the next sequential child
     * @throws ControlException with {@link ErrorCode#NO_SUCH_NODE} if the node does not exist
     */
    public final void setSequence(String path, int next) {
        control.call("set_sequence", "path", path, "next", next);
    }

    /**
     * Deletes a node and all nodes below, as an operator does.
     *
     * @param path the path of the node, neither {@code /} nor one of the server below {@code /zookeeper}
     * @return the sessions that owned the ephemeral nodes that were deleted
     * @throws ControlException with {@link ErrorCode#NO_SUCH_NODE} if the node does not exist
     */
    public final List<Long> remove(String path) {
        return control.call("remove", "path", path).ids("sessions");
    }

    /**
     * Deletes empty containers, and nodes whose time to live has passed. Without this call, the server
     * does so once per second.
     *
     * @return the paths of the deleted nodes
     */
    public final List<String> reapContainers() {
        return control.call("reap_containers").texts("paths");
    }

    /**
     * Installs a rule. It stays until it is removed, {@link #reset} is called, or the server ends.
     *
     * @param spec the rule
     * @return the installed rule, which {@link Rule#close} removes
     * @throws ControlException with {@link ErrorCode#BAD_REQUEST} if the server does not accept the rule,
     *     such as a name that is present
     */
    public final Rule addRule(RuleSpec spec) {
        return new Rule(this, control.call("add_rule", spec.parameters(), Duration.ZERO).text("rule"));
    }

    /** Removes all rules. */
    public final void removeRules() {
        control.call("remove_rules");
    }

    /**
     * Returns the present state. In an ensemble, nodes and sessions are those of the member with the
     * latest state; watches and counts are those of all members.
     *
     * @return nodes, sessions, watches and counts
     */
    public final Probe probe() {
        return new Probe(control.call("probe"));
    }

    /**
     * Waits for a condition, for at most {@link #DEFAULT_WAIT}.
     *
     * @param condition the condition
     * @return the time that the call waited
     * @throws ConditionTimeoutException if the condition did not become true in time
     */
    public final Duration until(Condition condition) {
        return until(condition, DEFAULT_WAIT);
    }

    /**
     * Waits for a condition.
     *
     * @param condition the condition
     * @param timeout the longest wait, from 0 to 4,294,967,295 ms, rounded up to milliseconds; 0 checks
     *     once
     * @return the time that the call waited
     * @throws ConditionTimeoutException if the condition did not become true in time
     * @throws IllegalArgumentException if the timeout is out of range
     */
    public final Duration until(Condition condition, Duration timeout) {
        Map<String, Object> parameters = new LinkedHashMap<>();
        parameters.put("condition", condition.parameters());
        parameters.put("timeout_ms", Values.millis("until", timeout));
        return Duration.ofMillis(control.call("until", parameters, timeout).integer("waited_ms"));
    }

    /**
     * Returns the faults so far.
     *
     * @return the faults, the oldest first
     */
    public final List<JournalEntry> journal() {
        return control.call("journal").objects("entries", JournalEntry::new);
    }

    /**
     * Ends all faults: removes rules and lags, heals, resumes and starts all members, and lets them write.
     * Nodes, sessions and clocks stay.
     */
    public final void reset() {
        control.call("reset");
    }

    /**
     * Ends the server, and waits until its process has ended, at most 10 s before it is killed. Calls of
     * other threads end with {@link ServerGoneException}. Has no effect if it was called before.
     */
    @Override
    public final void close() {
        control.close();
        process.end();
    }

    /** Returns the connect string and the process, for messages. */
    @Override
    public String toString() {
        return getClass().getSimpleName() + "(" + getConnectString() + ", process " + getPid() + ")";
    }

    /** The settings of a server or an ensemble. One builder can start several. */
    public static final class Builder {
        private static final Duration TICK = Duration.ofMillis(100);
        private static final Duration MAX_SESSION_TIMEOUT = Duration.ofSeconds(60);

        private Path binary;
        private int[] ports = {};
        private Duration tick = TICK;
        private Duration minSessionTimeout;
        private Duration maxSessionTimeout;
        private Duration startTimeout = Duration.ofSeconds(30);
        private Duration callTimeout = Duration.ofSeconds(30);
        private final List<String> more = new ArrayList<>();

        private Builder() {}

        /**
         * Sets the program. The default is the environment variable {@code ZK_TEST_SERVER_BIN}, the program
         * in the jar of the platform, or {@code zk-test-server} in {@code PATH}, in this order.
         *
         * @param program the path of the program
         * @return this builder
         */
        public Builder binary(Path program) {
            binary = Objects.requireNonNull(program, "binary: no path");
            return this;
        }

        /**
         * Sets the port of each member. The default is any free port.
         *
         * @param numbers one port per member, from 0 to 65,535; 0 is any free port
         * @return this builder
         * @throws IllegalArgumentException if a port is out of range
         */
        public Builder ports(int... numbers) {
            for (int port : numbers) {
                if (port < 0 || port > 0xFFFF) {
                    throw new IllegalArgumentException("ports: " + port + " is not between 0 and 65535");
                }
            }
            ports = numbers.clone();
            return this;
        }

        /**
         * Sets the granularity with which sessions expire. The default is 100 ms.
         *
         * @param duration at least 1 ms, rounded up to milliseconds
         * @return this builder
         * @throws IllegalArgumentException if the duration is out of range
         */
        public Builder tick(Duration duration) {
            Values.millis("tick", duration);
            if (duration.isZero()) {
                throw new IllegalArgumentException("tick: the duration is 0");
            }
            tick = duration;
            return this;
        }

        /**
         * Sets the shortest timeout of a session. The default is two ticks.
         *
         * @param duration from 0 to 4,294,967,295 ms, rounded up to milliseconds
         * @return this builder
         * @throws IllegalArgumentException if the duration is out of range
         */
        public Builder minSessionTimeout(Duration duration) {
            Values.millis("minSessionTimeout", duration);
            minSessionTimeout = duration;
            return this;
        }

        /**
         * Sets the longest timeout of a session. The default is 60 s, or 20 ticks if that is more.
         *
         * @param duration from 0 to 4,294,967,295 ms, rounded up to milliseconds
         * @return this builder
         * @throws IllegalArgumentException if the duration is out of range
         */
        public Builder maxSessionTimeout(Duration duration) {
            Values.millis("maxSessionTimeout", duration);
            maxSessionTimeout = duration;
            return this;
        }

        /**
         * Limits the connections of one address to one member. The default is 0.
         *
         * @param count the maximum; 0 is no limit
         * @return this builder
         * @throws IllegalArgumentException if the number is negative
         */
        public Builder maxClientConnections(int count) {
            Values.atLeast(0, "maxClientConnections", "the number", count);
            return options("--max-client-connections", Integer.toString(count));
        }

        /**
         * Sets a directory to load nodes and sessions from at the start, and to save them to at the end. The
         * default is none: nodes and sessions are lost at the end. For one server only.
         *
         * @param directory the directory, which must exist; its files are not those of Apache ZooKeeper
         * @return this builder
         */
        public Builder dataDirectory(Path directory) {
            return options("--data-dir", directory.toString());
        }

        /**
         * Sets the version of ZooKeeper that the server behaves like, where versions differ. The default is
         * that of the program, 3.9.
         *
         * @param version {@code 3.8} or {@code 3.9}
         * @return this builder
         */
        public Builder zooKeeperVersion(String version) {
            return options("--zookeeper-version", version);
        }

        /**
         * Adds options of the program. {@code zk-test-server --help} lists them. An unknown option fails the
         * start.
         *
         * @param options the options and their values
         * @return this builder
         */
        public Builder options(String... options) {
            Collections.addAll(more, options);
            return this;
        }

        /**
         * Sets the longest time to wait until a server is ready. The default is 30 s.
         *
         * @param duration from 0 to 4,294,967,295 ms
         * @return this builder
         * @throws IllegalArgumentException if the duration is out of range
         */
        public Builder startTimeout(Duration duration) {
            Values.millis("startTimeout", duration);
            startTimeout = duration;
            return this;
        }

        /**
         * Sets the longest time to wait for the response of a call, in addition to the timeout of
         * {@link ZkTestServer#until}. The default is 30 s.
         *
         * @param duration from 0 to 4,294,967,295 ms
         * @return this builder
         * @throws IllegalArgumentException if the duration is out of range
         */
        public Builder callTimeout(Duration duration) {
            Values.millis("callTimeout", duration);
            callTimeout = duration;
            return this;
        }

        /**
         * Starts one server.
         *
         * @return the server
         * @throws ServerStartException if it cannot start
         */
        public ZkTestServer launch() {
            return new ZkTestServer(this);
        }

        /**
         * Starts an ensemble.
         *
         * @param members the number of members, from 1 to 99
         * @return the ensemble
         * @throws ServerStartException if it cannot start
         * @throws IllegalArgumentException if the number is less than 1
         */
        public ZkTestCluster launchCluster(int members) {
            return new ZkTestCluster(this, members);
        }

        private Path program() {
            if (binary != null) {
                return binary;
            }
            try {
                return ServerBinary.find(System.getenv());
            } catch (IOException error) {
                throw new ServerStartException("start: " + error.getMessage(), error);
            }
        }

        private List<String> options(int members) {
            if (ports.length > 0 && ports.length != members) {
                throw new ServerStartException("start: " + ports.length + " ports for " + members + " members", null);
            }
            List<String> all = new ArrayList<>();
            if (members == 1) {
                Collections.addAll(all, "--port", Integer.toString(ports.length == 0 ? 0 : ports[0]));
            } else {
                Collections.addAll(all, "--ensemble", Integer.toString(members), "--port", "0");
            }
            if (members > 1 && ports.length > 0) {
                List<String> texts = new ArrayList<>();
                for (int port : ports) {
                    texts.add(Integer.toString(port));
                }
                Collections.addAll(all, "--ports", String.join(",", texts));
            }
            Duration twenty = tick.multipliedBy(20);
            Duration longest = twenty.compareTo(MAX_SESSION_TIMEOUT) > 0 ? twenty : MAX_SESSION_TIMEOUT;
            Duration shortest = tick.multipliedBy(2);
            addMillis(all, "--tick-time", tick);
            addMillis(all, "--min-session-timeout", minSessionTimeout == null ? shortest : minSessionTimeout);
            addMillis(all, "--max-session-timeout", maxSessionTimeout == null ? longest : maxSessionTimeout);
            all.addAll(more);
            return all;
        }

        private static void addMillis(List<String> options, String name, Duration duration) {
            Collections.addAll(options, name, Long.toString(Values.millis(name, duration)));
        }
    }
}
