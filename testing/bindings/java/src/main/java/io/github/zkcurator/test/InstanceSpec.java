package io.github.zkcurator.test;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * The settings of a member, like the class of the same name in Apache Curator. Two are equal if their
 * host name and their port are.
 *
 * <p>Ports of elections and quorums have no effect, because the members of an ensemble are in one
 * process.
 */
public class InstanceSpec {
    private static final AtomicInteger NEXT_SERVER_ID = new AtomicInteger(1);
    static final String LOCALHOST = "127.0.0.1";

    /** {@code null} for a temporary one that is not needed yet. */
    private File dataDirectory;

    private final int port;
    private final int electionPort;
    private final int quorumPort;
    private final boolean deleteDataDirectoryOnClose;
    private final int serverId;
    private final int tickTime;
    private final int maxClientCnxns;
    private final Map<String, Object> customProperties;
    private final String hostname;

    /**
     * Creates settings with the default tick, without limit of connections.
     *
     * @param dataDirectory the directory; {@code null} for a new temporary one
     * @param port the port; a negative one for any free port
     * @param electionPort a port without effect; a negative one for any free port
     * @param quorumPort a port without effect; a negative one for any free port
     * @param deleteDataDirectoryOnClose {@code true} to delete the directory when the server is closed
     * @param serverId the id of the server; a negative one for the next number
     */
    public InstanceSpec(
            File dataDirectory,
            int port,
            int electionPort,
            int quorumPort,
            boolean deleteDataDirectoryOnClose,
            int serverId) {
        this(dataDirectory, port, electionPort, quorumPort, deleteDataDirectoryOnClose, serverId, -1, -1);
    }

    /**
     * Creates settings.
     *
     * @param dataDirectory the directory; {@code null} for a new temporary one
     * @param port the port; a negative one for any free port
     * @param electionPort a port without effect; a negative one for any free port
     * @param quorumPort a port without effect; a negative one for any free port
     * @param deleteDataDirectoryOnClose {@code true} to delete the directory when the server is closed
     * @param serverId the id of the server; a negative one for the next number
     * @param tickTime the tick in milliseconds; 0 or less for the default, 100 ms
     * @param maxClientCnxns the maximum number of connections of one address; 0 or less for no limit
     */
    public InstanceSpec(
            File dataDirectory,
            int port,
            int electionPort,
            int quorumPort,
            boolean deleteDataDirectoryOnClose,
            int serverId,
            int tickTime,
            int maxClientCnxns) {
        this(
                dataDirectory,
                port,
                electionPort,
                quorumPort,
                deleteDataDirectoryOnClose,
                serverId,
                tickTime,
                maxClientCnxns,
                null);
    }

    /**
     * Creates settings with properties.
     *
     * @param dataDirectory the directory; {@code null} for a new temporary one
     * @param port the port; a negative one for any free port
     * @param electionPort a port without effect; a negative one for any free port
     * @param quorumPort a port without effect; a negative one for any free port
     * @param deleteDataDirectoryOnClose {@code true} to delete the directory when the server is closed
     * @param serverId the id of the server; a negative one for the next number
     * @param tickTime the tick in milliseconds; 0 or less for the default, 100 ms
     * @param maxClientCnxns the maximum number of connections of one address; 0 or less for no limit
     * @param customProperties properties such as {@code minSessionTimeout}; {@code null} for none. The
     *     server refuses properties that it does not know when it is created
     */
    public InstanceSpec(
            File dataDirectory,
            int port,
            int electionPort,
            int quorumPort,
            boolean deleteDataDirectoryOnClose,
            int serverId,
            int tickTime,
            int maxClientCnxns,
            Map<String, Object> customProperties) {
        this(
                dataDirectory,
                port,
                electionPort,
                quorumPort,
                deleteDataDirectoryOnClose,
                serverId,
                tickTime,
                maxClientCnxns,
                customProperties,
                null);
    }

    /**
     * Creates settings with properties and a host name.
     *
     * @param dataDirectory the directory; {@code null} for a new temporary one
     * @param port the port; a negative one for any free port
     * @param electionPort a port without effect; a negative one for any free port
     * @param quorumPort a port without effect; a negative one for any free port
     * @param deleteDataDirectoryOnClose {@code true} to delete the directory when the server is closed
     * @param serverId the id of the server; a negative one for the next number
     * @param tickTime the tick in milliseconds; 0 or less for the default, 100 ms
     * @param maxClientCnxns the maximum number of connections of one address; 0 or less for no limit
     * @param customProperties properties such as {@code minSessionTimeout}; {@code null} for none. The
     *     server refuses properties that it does not know when it is created
     * @param hostname the address to listen on, or a name of this machine; {@code null} for 127.0.0.1
     */
    public InstanceSpec(
            File dataDirectory,
            int port,
            int electionPort,
            int quorumPort,
            boolean deleteDataDirectoryOnClose,
            int serverId,
            int tickTime,
            int maxClientCnxns,
            Map<String, Object> customProperties,
            String hostname) {
        this.dataDirectory = dataDirectory;
        this.port = port < 0 ? getRandomPort() : port;
        this.electionPort = electionPort < 0 ? getRandomPort() : electionPort;
        this.quorumPort = quorumPort < 0 ? getRandomPort() : quorumPort;
        this.deleteDataDirectoryOnClose = deleteDataDirectoryOnClose;
        this.serverId = serverId < 0 ? NEXT_SERVER_ID.getAndIncrement() : serverId;
        this.tickTime = tickTime > 0 ? tickTime : -1;
        this.maxClientCnxns = maxClientCnxns >= 0 ? maxClientCnxns : -1;
        this.customProperties = customProperties == null
                ? Collections.emptyMap()
                : Collections.unmodifiableMap(new HashMap<>(customProperties));
        this.hostname = hostname == null ? LOCALHOST : hostname;
    }

    /** Returns the settings of a member whose port the server has chosen. */
    static InstanceSpec of(String address) {
        int port = ServerProcess.port(address);
        return new InstanceSpec(null, port, 0, 0, true, -1);
    }

    /** Returns {@code true} if there is no directory yet, because nobody has needed it. */
    synchronized boolean hasNoDirectory() {
        return dataDirectory == null;
    }

    /** Deletes a directory that {@link #getDataDirectory} has created, and that is empty. */
    synchronized void discardDataDirectory() {
        if (dataDirectory.delete()) {
            dataDirectory = null;
        }
    }

    /** Deletes the directory, if there is one. */
    synchronized void deleteDataDirectory() throws IOException {
        if (dataDirectory == null) {
            return;
        }
        List<Path> paths = new ArrayList<>();
        try (Stream<Path> all = Files.walk(dataDirectory.toPath())) {
            all.sorted(Comparator.reverseOrder()).forEach(paths::add);
        } catch (NoSuchFileException error) {
            return;
        }
        for (Path path : paths) {
            Files.deleteIfExists(path);
        }
    }

    /** Makes the ids of servers begin with 1 again. */
    public static void reset() {
        NEXT_SERVER_ID.set(1);
    }

    /**
     * Creates settings with the defaults and any free port.
     *
     * @return new settings
     */
    public static InstanceSpec newInstanceSpec() {
        return new InstanceSpec(null, -1, -1, -1, true, -1, -1, -1);
    }

    /**
     * Returns a port that is free now. Another program can take it before a server does. A server that
     * chooses its port by itself, as {@code new TestingServer()} does, has no such gap.
     *
     * @return the port
     */
    public static int getRandomPort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException("getRandomPort: no free port", error);
        }
    }

    /**
     * Returns the id of the server.
     *
     * @return the id
     */
    public int getServerId() {
        return serverId;
    }

    /**
     * Returns the directory of the server. The first call creates it if it was {@code null} in the
     * constructor.
     *
     * @return the directory
     */
    public synchronized File getDataDirectory() {
        if (dataDirectory == null) {
            try {
                dataDirectory = Files.createTempDirectory("zk-test-server-").toFile();
            } catch (IOException error) {
                throw new UncheckedIOException("getDataDirectory: no temporary directory", error);
            }
            if (deleteDataDirectoryOnClose) {
                // It is empty, and stays if no server of these settings is closed.
                dataDirectory.deleteOnExit();
            }
        }
        return dataDirectory;
    }

    /**
     * Returns the port for clients.
     *
     * @return the port
     */
    public int getPort() {
        return port;
    }

    /**
     * Returns a port without effect.
     *
     * @return the port
     */
    public int getElectionPort() {
        return electionPort;
    }

    /**
     * Returns a port without effect.
     *
     * @return the port
     */
    public int getQuorumPort() {
        return quorumPort;
    }

    /**
     * Returns the connect string for clients.
     *
     * @return the host name and the port
     */
    public String getConnectString() {
        return hostname + ":" + port;
    }

    /**
     * Returns the tick.
     *
     * @return the tick in milliseconds; -1 for the default
     */
    public int getTickTime() {
        return tickTime;
    }

    /**
     * Returns the maximum number of connections of one address.
     *
     * @return the number; 0 or less for no limit
     */
    public int getMaxClientCnxns() {
        return maxClientCnxns;
    }

    /**
     * Returns {@code true} if the directory is deleted when the server is closed.
     *
     * @return {@code true} to delete it; {@code false} to keep nodes and sessions in it
     */
    public boolean deleteDataDirectoryOnClose() {
        return deleteDataDirectoryOnClose;
    }

    /**
     * Returns the properties.
     *
     * @return an unmodifiable map
     */
    public Map<String, Object> getCustomProperties() {
        return customProperties;
    }

    /**
     * Returns the host name.
     *
     * @return the name or the address
     */
    public String getHostname() {
        return hostname;
    }

    /** Returns {@code true} if host name and port are equal. */
    @Override
    public boolean equals(Object other) {
        if (other == null || getClass() != other.getClass()) {
            return false;
        }
        InstanceSpec spec = (InstanceSpec) other;
        return port == spec.port && hostname.equals(spec.hostname);
    }

    /** Returns the hash code of host name and port. */
    @Override
    public int hashCode() {
        return hostname.hashCode() * 31 + port;
    }

    /** Returns the connect string and the directory, for messages. */
    @Override
    public synchronized String toString() {
        String directory = dataDirectory == null ? "a temporary directory" : dataDirectory.toString();
        return "InstanceSpec(" + getConnectString() + ", id " + serverId + ", " + directory + ")";
    }
}
