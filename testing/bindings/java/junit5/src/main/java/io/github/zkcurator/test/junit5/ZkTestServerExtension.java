package io.github.zkcurator.test.junit5;

import io.github.zkcurator.test.JournalEntry;
import io.github.zkcurator.test.ZkTestCluster;
import io.github.zkcurator.test.ZkTestServer;
import io.github.zkcurator.test.ZkTestServerException;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Starts a server for a test, or for all tests of a class, and ends it.
 *
 * <pre>{@code
 * @RegisterExtension
 * final ZkTestServerExtension zk = new ZkTestServerExtension();
 *
 * @Test
 * void survivesAnExpiredSession(ZkTestServer server) {
 *     …
 * }
 * }</pre>
 *
 * <ul>
 *   <li>In an instance field, each test has a server of its own. A server starts in milliseconds.
 *   <li>In a static field, or with {@code @ExtendWith(ZkTestServerExtension.class)}, all tests of the class
 *       and of its nested classes share a server. {@link ZkTestServer#reset} ends the faults after each
 *       test; nodes and sessions stay. Tests that cause faults must not run at the same time then.
 * </ul>
 *
 * <p>Parameters of type {@link ZkTestServer}, or {@link ZkTestCluster} if the extension starts an ensemble,
 * are the server of the test. If a test has both a server and an ensemble, a {@link ZkTestServer} is the
 * single server. Of two extensions of the same kind, use {@link #getServer} or {@link #getCluster}. When a test fails, the faults that it has caused are published as the entry
 * {@value #JOURNAL} of its report.
 */
public final class ZkTestServerExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {
    /** The key of the faults in the report of a test that has failed. */
    public static final String JOURNAL = "zk-test-server journal";

    private static final String SERVER = "server";
    /** Of all extensions: the tests and classes that have a single server. */
    private static final Namespace ALL = Namespace.create(ZkTestServerExtension.class);

    private final Supplier<? extends ZkTestServer> launch;
    private final Class<? extends ZkTestServer> type;
    private final Namespace namespace = Namespace.create(ZkTestServerExtension.class, this);
    private volatile ZkTestServer current;

    /** Creates an extension that starts a server with the defaults. */
    public ZkTestServerExtension() {
        this(ZkTestServer.builder());
    }

    /**
     * Creates an extension that starts a server.
     *
     * @param builder the settings, which must not change after this call
     */
    public ZkTestServerExtension(ZkTestServer.Builder builder) {
        this(builder::launch, ZkTestServer.class);
    }

    private ZkTestServerExtension(Supplier<? extends ZkTestServer> launch, Class<? extends ZkTestServer> type) {
        this.launch = launch;
        this.type = type;
    }

    /**
     * Creates an extension that starts an ensemble with the defaults.
     *
     * @param members the number of members, from 1 to 99
     * @return the extension
     */
    public static ZkTestServerExtension cluster(int members) {
        return cluster(ZkTestServer.builder(), members);
    }

    /**
     * Creates an extension that starts an ensemble.
     *
     * @param builder the settings, which must not change after this call
     * @param members the number of members, from 1 to 99
     * @return the extension
     */
    public static ZkTestServerExtension cluster(ZkTestServer.Builder builder, int members) {
        return new ZkTestServerExtension(() -> builder.launchCluster(members), ZkTestCluster.class);
    }

    /**
     * Returns the server.
     *
     * @return the server of the present test or class
     * @throws IllegalStateException before the first test
     */
    public ZkTestServer getServer() {
        if (current == null) {
            throw new IllegalStateException("getServer: no test has begun");
        }
        return current;
    }

    /**
     * Returns the ensemble.
     *
     * @return the ensemble of the present test or class
     * @throws IllegalStateException before the first test, or if the extension starts a single server
     */
    public ZkTestCluster getCluster() {
        ZkTestServer server = getServer();
        if (!(server instanceof ZkTestCluster)) {
            throw new IllegalStateException("getCluster: the extension starts a single server");
        }
        return (ZkTestCluster) server;
    }

    /**
     * Returns the connect string of the server.
     *
     * @return the addresses of all members, separated by commas
     * @throws IllegalStateException before the first test
     */
    public String getConnectString() {
        return getServer().getConnectString();
    }

    /**
     * Starts the server of a class. JUnit does not call this for an instance field.
     *
     * @param context the class
     */
    @Override
    public void beforeAll(ExtensionContext context) {
        serverOf(context);
    }

    /**
     * Starts the server of a test, unless its class has one.
     *
     * @param context the test
     */
    @Override
    public void beforeEach(ExtensionContext context) {
        current = serverOf(context).server;
    }

    /**
     * Ends the faults of the test. JUnit then closes the server of the test.
     *
     * @param context the test
     */
    @Override
    public void afterEach(ExtensionContext context) {
        Held held = serverOf(context);
        if (context.getExecutionException().isPresent()) {
            context.publishReportEntry(JOURNAL, journal(held.server));
        }
        if (held.owner != context) {
            held.server.reset();
        }
    }

    private static String journal(ZkTestServer server) {
        try {
            List<JournalEntry> entries = server.journal();
            return entries.stream().map(JournalEntry::toString).collect(Collectors.joining(System.lineSeparator()));
        } catch (ZkTestServerException error) {
            return error.getMessage();
        }
    }

    /** Returns the server of a class around, or starts one that JUnit closes at the end of the context. */
    private Held serverOf(ExtensionContext context) {
        if (type == ZkTestServer.class) {
            context.getStore(ALL).put(SERVER, true);
        }
        Held held = context.getStore(namespace).getOrComputeIfAbsent(
                SERVER, key -> new Held(launch.get(), context), Held.class);
        current = held.server;
        return held;
    }

    /**
     * Returns {@code true} for parameters of the type of the server. JUnit accepts only one extension for a
     * parameter, so an ensemble leaves those of a single server to an extension that starts one.
     *
     * @param parameter the parameter
     * @param context the test
     */
    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> wanted = parameter.getParameter().getType();
        boolean isOfAnother = wanted != type && context.getStore(ALL).get(SERVER) != null;
        return ZkTestServer.class.isAssignableFrom(wanted) && wanted.isAssignableFrom(type) && !isOfAnother;
    }

    /**
     * Returns the server.
     *
     * @param parameter the parameter
     * @param context the test
     */
    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return serverOf(context).server;
    }

    private static final class Held implements CloseableResource {
        final ZkTestServer server;
        final ExtensionContext owner;

        Held(ZkTestServer server, ExtensionContext owner) {
            this.server = server;
            this.owner = owner;
        }

        @Override
        public void close() {
            server.close();
        }
    }
}
