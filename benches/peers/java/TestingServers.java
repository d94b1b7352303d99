import org.apache.curator.test.TestingServer;

/** Curator's server for tests: one that the harness asks, and others that are started and closed. */
final class TestingServers implements Workload {
    private final TestingServer first;

    TestingServers(Options options) throws Exception {
        first = new TestingServer();
        CuratorPeer.say("listening " + first.getConnectString());
    }

    @Override
    public void close() throws Exception {
        first.close();
    }

    @Override
    public Round prepare(String path, int operations) {
        return new Round() {
            private int started;

            @Override
            public void run(Samples samples) throws Exception {
                for (; started < operations; started++) {
                    long called = System.nanoTime();
                    // It accepts clients when the constructor returns.
                    TestingServer server = new TestingServer();
                    samples.add(System.nanoTime() - called);
                    server.close();
                }
            }

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return "started=" + started;
            }
        };
    }
}
