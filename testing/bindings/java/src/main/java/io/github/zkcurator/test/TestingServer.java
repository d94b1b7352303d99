package io.github.zkcurator.test;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.util.Collections;

/**
 * A server with the constructors and methods of the class of the same name in Apache Curator, so that
 * tests change only the import. {@link #getZkTestServer} returns the faults.
 *
 * <p>Unlike the class of Curator, the default tick is 100 ms and session timeouts are from 200 ms to
 * 60 s, and the data directory stays empty, unless the settings keep it after the end.
 */
public class TestingServer implements Closeable {
    private final TestingZooKeeperServer server;

    /**
     * Starts a server on any free port.
     *
     * @throws Exception if it cannot start
     */
    public TestingServer() throws Exception {
        this(true);
    }

    /**
     * Creates a server on any free port.
     *
     * @param start {@code true} to start it
     * @throws Exception if it cannot start
     */
    public TestingServer(boolean start) throws Exception {
        this(TestingZooKeeperServer.of(1).get(0), start);
    }

    /**
     * Starts a server.
     *
     * @param port the port; a negative one for any free port
     * @throws Exception if it cannot start
     */
    public TestingServer(int port) throws Exception {
        this(port, true);
    }

    /**
     * Creates a server.
     *
     * @param port the port; a negative one for any free port
     * @param start {@code true} to start it
     * @throws Exception if it cannot start, also if {@code start} is {@code false} and the port is in use
     */
    public TestingServer(int port, boolean start) throws Exception {
        this(port, null, start);
    }

    /**
     * Starts a server.
     *
     * @param port the port; a negative one for any free port
     * @param tempDirectory the directory, which is deleted when the server is closed; {@code null} for a
     *     new temporary one
     * @throws Exception if it cannot start
     */
    public TestingServer(int port, File tempDirectory) throws Exception {
        this(port, tempDirectory, true);
    }

    /**
     * Creates a server.
     *
     * @param port the port; a negative one for any free port
     * @param tempDirectory the directory, which is deleted when the server is closed; {@code null} for a
     *     new temporary one
     * @param start {@code true} to start it
     * @throws Exception if it cannot start, also if {@code start} is {@code false} and the port is in use
     */
    public TestingServer(int port, File tempDirectory, boolean start) throws Exception {
        this(
                port < 0 && tempDirectory == null
                        ? TestingZooKeeperServer.of(1).get(0)
                        : single(new InstanceSpec(tempDirectory, port, -1, -1, true, -1)),
                start);
    }

    /**
     * Creates a server with settings.
     *
     * @param spec the settings
     * @param start {@code true} to start it
     * @throws Exception if it cannot start, also if {@code start} is {@code false} and the port is in use
     * @throws IllegalArgumentException if the settings have a property that is not supported
     */
    public TestingServer(InstanceSpec spec, boolean start) throws Exception {
        this(single(spec), start);
    }

    private TestingServer(TestingZooKeeperServer server, boolean start) throws Exception {
        this.server = server;
        boolean ready = false;
        try {
            if (start) {
                server.start();
            }
            ready = true;
        } finally {
            if (!ready) {
                server.close();
            }
        }
    }

    private static TestingZooKeeperServer single(InstanceSpec spec) {
        return TestingZooKeeperServer.of(Collections.singletonList(spec)).get(0);
    }

    /**
     * Returns the server with its faults. This method is not in Curator.
     *
     * @return the server of this object
     */
    public ZkTestServer getZkTestServer() {
        return server.server();
    }

    /**
     * Returns the port.
     *
     * @return the port, also before the start and after the end
     */
    public int getPort() {
        return server.getInstanceSpec().getPort();
    }

    /**
     * Returns the directory.
     *
     * @return the directory, which the server does not use unless it stays after the end
     */
    public File getTempDirectory() {
        return server.getInstanceSpec().getDataDirectory();
    }

    /**
     * Starts the server. Has no effect after the first call; {@link #restart} starts a server that was
     * stopped.
     *
     * @throws Exception if it cannot start
     */
    public void start() throws Exception {
        server.start();
    }

    /**
     * Stops the server: connections end, the port is closed, nodes and sessions stay. Has no effect if it
     * does not run.
     *
     * @throws IOException never
     */
    public void stop() throws IOException {
        server.stop();
    }

    /**
     * Stops the server if it runs, and starts it on the same port with its nodes and sessions.
     *
     * @throws IllegalStateException if it is closed
     * @throws Exception if it cannot start
     */
    public void restart() throws Exception {
        server.restart();
    }

    /**
     * Ends the server, and deletes its directory if the settings say so. Has no effect if it was called
     * before.
     *
     * @throws IOException if the directory cannot be deleted
     */
    @Override
    public void close() throws IOException {
        server.close();
    }

    /**
     * Returns the connect string for clients.
     *
     * @return the host name and the port, also before the start and after the end
     */
    public String getConnectString() {
        return server.getInstanceSpec().getConnectString();
    }
}
