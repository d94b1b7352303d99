package io.github.zkcurator.test;

import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The state of a server at one moment, for assertions. The nodes of the server itself, {@code /zookeeper}
 * and below, are left out.
 */
public final class Probe {
    private final long zxid;
    private final long connections;
    private final long notifications;
    private final Map<String, Node> nodes;
    private final List<Session> sessions;
    private final List<Watch> watches;
    private final Map<String, Long> requests;

    Probe(Fields probe) {
        zxid = probe.id("zxid");
        connections = probe.integer("connections");
        notifications = probe.integer("notifications");
        Map<String, Node> byPath = new LinkedHashMap<>();
        probe.objects("nodes", Node::new).forEach(node -> byPath.put(node.path, node));
        nodes = Collections.unmodifiableMap(byPath);
        sessions = probe.objects("sessions", Session::new);
        watches = probe.objects("watches", Watch::new);
        Fields counts = probe.object("requests");
        Map<String, Long> byOperation = new LinkedHashMap<>();
        counts.names().forEach(name -> byOperation.put(name, counts.integer(name)));
        requests = Collections.unmodifiableMap(byOperation);
    }

    /**
     * Returns the transaction that was applied last.
     *
     * @return the id of the transaction
     */
    public long getZxid() {
        return zxid;
    }

    /**
     * Returns how many connections there were.
     *
     * @return the number since the start
     */
    public long getConnections() {
        return connections;
    }

    /**
     * Returns how many watch events were sent.
     *
     * @return the number since the start
     */
    public long getNotifications() {
        return notifications;
    }

    /**
     * Returns all nodes.
     *
     * @return the nodes by path, sorted
     */
    public Map<String, Node> getNodes() {
        return nodes;
    }

    /**
     * Returns a node.
     *
     * @param path the path
     * @return the node; empty if it does not exist
     */
    public Optional<Node> getNode(String path) {
        return Optional.ofNullable(nodes.get(path));
    }

    /**
     * Returns all sessions.
     *
     * @return the sessions that have neither expired nor been closed
     */
    public List<Session> getSessions() {
        return sessions;
    }

    /**
     * Returns a session.
     *
     * @param sessionId the id
     * @return the session; empty if it has ended
     */
    public Optional<Session> getSession(long sessionId) {
        return sessions.stream().filter(session -> session.id == sessionId).findFirst();
    }

    /**
     * Returns all watches.
     *
     * @return the watches of all clients
     */
    public List<Watch> getWatches() {
        return watches;
    }

    /**
     * Returns how many requests of each operation the server has received.
     *
     * @return the numbers since the start, by the name of the operation, such as {@code get_data}
     */
    public Map<String, Long> getRequests() {
        return requests;
    }

    /**
     * Returns how many requests of an operation the server has received.
     *
     * @param operation the operation
     * @return the number since the start
     */
    public long getRequests(Operation operation) {
        return requests.getOrDefault(operation.protocolName(), 0L);
    }

    /** Returns the state as lines of text, for messages of tests that fail. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("zxid ").append(Values.id(zxid));
        nodes.values().forEach(node -> text.append(System.lineSeparator()).append(node));
        sessions.forEach(session -> text.append(System.lineSeparator()).append(session));
        watches.forEach(watch -> text.append(System.lineSeparator()).append(watch));
        return text.toString();
    }

    /** A node. */
    public static final class Node {
        private final String path;
        private final byte[] data;
        private final int version;
        private final int cversion;
        private final long czxid;
        private final long mzxid;
        private final long pzxid;
        private final OptionalLong owner;
        private final boolean container;
        private final Optional<Duration> ttl;
        private final int children;

        Node(Fields node) {
            path = node.text("path");
            data = node.has("data") ? node.data("data") : null;
            version = node.number("version");
            cversion = node.number("cversion");
            czxid = node.id("czxid");
            mzxid = node.id("mzxid");
            pzxid = node.id("pzxid");
            owner = node.has("owner") ? OptionalLong.of(node.id("owner")) : OptionalLong.empty();
            container = node.flag("container");
            ttl = node.has("ttl_ms") ? Optional.of(Duration.ofMillis(node.integer("ttl_ms"))) : Optional.empty();
            children = node.number("children");
        }

        /**
         * Returns the path.
         *
         * @return the path
         */
        public String getPath() {
            return path;
        }

        /**
         * Returns the data.
         *
         * @return a copy of the bytes; {@code null} for a node without data
         */
        public byte[] getData() {
            return data == null ? null : data.clone();
        }

        /**
         * Returns the version of the data.
         *
         * @return the number of changes of the data
         */
        public int getVersion() {
            return version;
        }

        /**
         * Returns the version of the children.
         *
         * @return the number of changes of the list of children
         */
        public int getCversion() {
            return cversion;
        }

        /**
         * Returns the transaction that has created the node.
         *
         * @return the id of the transaction
         */
        public long getCzxid() {
            return czxid;
        }

        /**
         * Returns the transaction that has last changed the data.
         *
         * @return the id of the transaction
         */
        public long getMzxid() {
            return mzxid;
        }

        /**
         * Returns the transaction that has last changed the list of children.
         *
         * @return the id of the transaction
         */
        public long getPzxid() {
            return pzxid;
        }

        /**
         * Returns the session that owns an ephemeral node.
         *
         * @return the id of the session; empty for a persistent node
         */
        public OptionalLong getOwner() {
            return owner;
        }

        /**
         * Returns {@code true} for a container.
         *
         * @return {@code true} if the node is deleted when its last child is
         */
        public boolean isContainer() {
            return container;
        }

        /**
         * Returns the time to live.
         *
         * @return the time in milliseconds; empty for a node without one
         */
        public Optional<Duration> getTtl() {
            return ttl;
        }

        /**
         * Returns the number of children.
         *
         * @return the number
         */
        public int getChildren() {
            return children;
        }

        /** Returns a line of text. */
        @Override
        public String toString() {
            return path + (data == null ? " without data" : " of " + data.length + " bytes") + ", version " + version
                    + (owner.isPresent() ? ", owner " + Values.id(owner.getAsLong()) : "")
                    + (container ? ", container" : "");
        }
    }

    /** A session. */
    public static final class Session {
        private final long id;
        private final Duration timeout;
        private final boolean connected;
        private final List<String> ephemerals;
        private final List<String> identities;

        Session(Fields session) {
            id = session.id("session");
            timeout = Duration.ofMillis(session.integer("timeout_ms"));
            connected = session.flag("connected");
            ephemerals = session.texts("ephemerals");
            identities = session.texts("identities");
        }

        /**
         * Returns the id.
         *
         * @return the 64-bit id
         */
        public long getId() {
            return id;
        }

        /**
         * Returns the timeout that the server has agreed to.
         *
         * @return the timeout in milliseconds
         */
        public Duration getTimeout() {
            return timeout;
        }

        /**
         * Returns {@code true} if the session has a connection.
         *
         * @return {@code true} if it has one
         */
        public boolean isConnected() {
            return connected;
        }

        /**
         * Returns the paths of its ephemeral nodes.
         *
         * @return the paths, sorted
         */
        public List<String> getEphemerals() {
            return ephemerals;
        }

        /**
         * Returns the identities that the client has added.
         *
         * @return identities as {@code scheme:name}, without credentials
         */
        public List<String> getIdentities() {
            return identities;
        }

        /** Returns a line of text. */
        @Override
        public String toString() {
            return "session " + Values.id(id) + (connected ? " connected" : " not connected") + ", timeout "
                    + timeout.toMillis() + " ms, ephemeral nodes " + ephemerals;
        }
    }

    /** A watch. */
    public static final class Watch {
        private final long session;
        private final String path;
        private final String kind;

        Watch(Fields watch) {
            session = watch.id("session");
            path = watch.text("path");
            kind = watch.text("kind");
        }

        /**
         * Returns the session of the client.
         *
         * @return the id of the session
         */
        public long getSession() {
            return session;
        }

        /**
         * Returns the path.
         *
         * @return the path
         */
        public String getPath() {
            return path;
        }

        /**
         * Returns the kind.
         *
         * @return the kind, such as {@code data}
         */
        public String getKind() {
            return kind;
        }

        /** Returns a line of text. */
        @Override
        public String toString() {
            return kind + " watch on " + path + " of session " + Values.id(session);
        }
    }
}
