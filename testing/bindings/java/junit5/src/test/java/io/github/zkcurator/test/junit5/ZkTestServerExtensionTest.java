package io.github.zkcurator.test.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.zkcurator.test.Operation;
import io.github.zkcurator.test.RuleSpec;
import io.github.zkcurator.test.ZkTestCluster;
import io.github.zkcurator.test.ZkTestServer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.reporting.ReportEntry;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs classes with the extension, and looks at what became of their tests and servers. */
class ZkTestServerExtensionTest {
    /** The servers of the tests, in their order. Each test of this class has its own samples. */
    private static final Map<String, List<ZkTestServer>> USED = new ConcurrentHashMap<>();

    private static void use(Object sample, ZkTestServer server) {
        USED.computeIfAbsent(sample.getClass().getSimpleName(), name -> Collections.synchronizedList(new ArrayList<>()))
                .add(server);
    }

    private static List<ZkTestServer> used(Class<?> sample) {
        return USED.get(sample.getSimpleName());
    }

    private static final class Outcome implements TestExecutionListener {
        private final List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        private final List<String> journals = Collections.synchronizedList(new ArrayList<>());
        private int successful;

        @Override
        public synchronized void executionFinished(TestIdentifier test, TestExecutionResult result) {
            result.getThrowable().ifPresent(failures::add);
            if (test.isTest() && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
                successful++;
            }
        }

        @Override
        public void reportingEntryPublished(TestIdentifier test, ReportEntry entry) {
            journals.add(entry.getKeyValuePairs().get(ZkTestServerExtension.JOURNAL));
        }

        void requireSuccess(int tests) {
            failures.forEach(Throwable::printStackTrace);
            assertEquals(List.of(), failures);
            assertEquals(tests, successful);
        }
    }

    private static Outcome run(Class<?> sample) {
        Launcher launcher = LauncherFactory.create();
        Outcome outcome = new Outcome();
        launcher.execute(
                LauncherDiscoveryRequestBuilder.request()
                        .selectors(DiscoverySelectors.selectClass(sample))
                        .configurationParameter("junit.jupiter.execution.parallel.enabled", "false")
                        .build(),
                outcome);
        return outcome;
    }

    static class OwnServers {
        @RegisterExtension
        final ZkTestServerExtension zk = new ZkTestServerExtension();

        @BeforeEach
        void before(ZkTestServer server) {
            assertSame(zk.getServer(), server);
        }

        @Test
        void one(ZkTestServer server) {
            assertSame(zk.getServer(), server);
            assertEquals(server.getConnectString(), zk.getConnectString());
            assertThrows(IllegalStateException.class, zk::getCluster);
            assertTrue(server.isRunning());
            use(this, server);
        }

        @Test
        void two() {
            assertTrue(zk.getServer().isRunning());
            use(this, zk.getServer());
        }
    }

    @Test
    void anInstanceFieldStartsAServerForEachTest() {
        run(OwnServers.class).requireSuccess(2);
        List<ZkTestServer> servers = used(OwnServers.class);
        assertEquals(2, servers.size());
        assertNotSame(servers.get(0), servers.get(1));
        servers.forEach(server -> assertFalse(server.isRunning()));
    }

    static class SharedServer {
        @RegisterExtension
        static final ZkTestServerExtension ZK = new ZkTestServerExtension();

        @BeforeAll
        static void before(ZkTestServer server) {
            assertSame(ZK.getServer(), server);
        }

        @Test
        void one(ZkTestServer server) {
            // No earlier test has left its rule.
            server.addRule(RuleSpec.disconnect().on(Operation.CREATE).named("rule"));
            server.stop();
            use(this, server);
        }

        @Test
        void two(ZkTestServer server) {
            one(server);
        }

        @Nested
        class Inner {
            @Test
            void three(ZkTestServer server) {
                server.addRule(RuleSpec.disconnect().on(Operation.CREATE).named("rule"));
                assertEquals("standalone", server.info().getMembers().get(0).getRole());
                use(SharedServer.this, server);
            }
        }
    }

    @Test
    void aStaticFieldStartsOneServerAndResetsIt() {
        run(SharedServer.class).requireSuccess(3);
        List<ZkTestServer> servers = used(SharedServer.class);
        assertEquals(3, servers.size());
        servers.forEach(server -> assertSame(servers.get(0), server));
        assertFalse(servers.get(0).isRunning());
    }

    @ExtendWith(ZkTestServerExtension.class)
    static class Declared {
        private final ZkTestServer ofClass;

        Declared(ZkTestServer server) {
            ofClass = server;
        }

        @Test
        void one(ZkTestServer server) {
            assertSame(ofClass, server);
            use(this, server);
        }

        @Test
        void two(ZkTestServer server) {
            one(server);
        }
    }

    @Test
    void aDeclaredExtensionStartsOneServer() {
        run(Declared.class).requireSuccess(2);
        assertSame(used(Declared.class).get(0), used(Declared.class).get(1));
        assertFalse(used(Declared.class).get(0).isRunning());
    }

    static class Ensemble {
        @RegisterExtension
        final ZkTestServerExtension zk = ZkTestServerExtension.cluster(3);

        @Test
        void one(ZkTestServer server, ZkTestCluster cluster) {
            assertSame(server, cluster);
            assertSame(zk.getCluster(), cluster);
            assertEquals(3, cluster.getMembers());
            use(this, server);
        }
    }

    @Test
    void anEnsembleIsAParameter() {
        run(Ensemble.class).requireSuccess(1);
        assertFalse(used(Ensemble.class).get(0).isRunning());
    }

    static class Both {
        @RegisterExtension
        final ZkTestServerExtension single = new ZkTestServerExtension();

        @RegisterExtension
        final ZkTestServerExtension ensemble = ZkTestServerExtension.cluster(3);

        @Test
        void one(ZkTestServer server, ZkTestCluster cluster) {
            assertSame(single.getServer(), server);
            assertSame(ensemble.getCluster(), cluster);
            assertNotSame(server, cluster);
        }
    }

    static class BothShared {
        @RegisterExtension
        static final ZkTestServerExtension ENSEMBLE = ZkTestServerExtension.cluster(3);

        @RegisterExtension
        static final ZkTestServerExtension SINGLE = new ZkTestServerExtension();

        BothShared(ZkTestServer server, ZkTestCluster cluster) {
            assertSame(SINGLE.getServer(), server);
            assertSame(ENSEMBLE.getCluster(), cluster);
        }

        @BeforeAll
        static void before(ZkTestServer server, ZkTestCluster cluster) {
            assertSame(SINGLE.getServer(), server);
            assertSame(ENSEMBLE.getCluster(), cluster);
        }

        @Nested
        class Inner {
            @Test
            void one(ZkTestServer server, ZkTestCluster cluster) {
                assertSame(SINGLE.getServer(), server);
                assertSame(ENSEMBLE.getCluster(), cluster);
            }
        }
    }

    @Test
    void aServerAndAnEnsembleShareAClass() {
        run(Both.class).requireSuccess(1);
        run(BothShared.class).requireSuccess(1);
    }

    static class Wrong {
        @RegisterExtension
        final ZkTestServerExtension zk = new ZkTestServerExtension();

        @Test
        void clusterOfASingleServer(ZkTestCluster cluster) {}

        @Test
        void failure(ZkTestServer server) {
            server.pause();
            throw new IllegalStateException("a test that fails");
        }
    }

    @Test
    void aTestThatFailsReportsItsFaults() {
        Outcome outcome = run(Wrong.class);
        assertEquals(2, outcome.failures.size());
        assertTrue(outcome.failures.stream().anyMatch(error -> "a test that fails".equals(error.getMessage())));
        assertTrue(outcome.failures.stream().anyMatch(error -> error.getMessage().startsWith("No ParameterResolver")));
        assertTrue(
                outcome.journals.stream().anyMatch(journal -> journal != null && journal.contains("ms")),
                outcome.journals.toString());
    }

    @Test
    void beforeATestThereIsNoServer() {
        ZkTestServerExtension extension = new ZkTestServerExtension();
        assertThrows(IllegalStateException.class, extension::getServer);
        assertThrows(IllegalStateException.class, extension::getConnectString);
    }
}
