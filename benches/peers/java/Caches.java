import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** Caches: the load of a tree, the way of a change to its listener, and what a new connection costs. */
final class Caches {
    /** The nodes of the cache that is changed. */
    private static final int NODES = 100;

    private Caches() {}

    /** Creates a node with so many children. */
    static void plant(CuratorFramework client, String path, int count, byte[] payload) throws Exception {
        client.create().creatingParentsIfNeeded().forPath(path);
        CountDownLatch created = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            client.create().inBackground((unused, event) -> created.countDown()).forPath(node(path, number), payload);
        }
        if (!created.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the nodes are not created");
        }
    }

    static String node(String path, int number) {
        return String.format("%s/%08d", path, number);
    }

    private static byte[] payload(Options options) {
        byte[] payload = new byte[options.payload];
        Arrays.fill(payload, (byte) 7);
        return payload;
    }

    /** Starts a cache, and waits until it is loaded. */
    private static CuratorCache start(CuratorFramework client, String path, CuratorCacheListener... more)
            throws InterruptedException {
        CuratorCache cache = CuratorCache.build(client, path);
        CountDownLatch loaded = new CountDownLatch(1);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(loaded::countDown).build());
        for (CuratorCacheListener listener : more) {
            cache.listenable().addListener(listener);
        }
        cache.start();
        if (!loaded.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the cache is not loaded");
        }
        return cache;
    }

    static final class Load implements Workload {
        private final Sessions sessions;
        private final Options options;

        Load(Options options) throws InterruptedException {
            this.options = options;
            sessions = new Sessions(options, 1);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            plant(sessions.first(), path, options.size, payload(options));
            return new Round() {
                private int nodes;

                @Override
                public void run(Samples samples) throws Exception {
                    for (int done = 0; done < operations; done++) {
                        long began = System.nanoTime();
                        try (CuratorCache cache = start(sessions.first(), path)) {
                            samples.add(System.nanoTime() - began);
                            nodes += cache.size() - 1;
                        }
                    }
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return "nodes=" + nodes;
                }
            };
        }

        @Override
        public void close() {
            sessions.close();
        }
    }

    static final class Change implements Workload {
        private final Sessions sessions;
        private final byte[] payload;

        Change(Options options) throws InterruptedException {
            payload = payload(options);
            sessions = new Sessions(options, 2);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            CuratorFramework writing = sessions.get(1);
            plant(writing, path, NODES, payload);
            BlockingQueue<String> changed = new LinkedBlockingQueue<>();
            CuratorCacheListener listener = CuratorCacheListener.builder()
                    .forChanges((before, after) -> changed.add(after.getPath()))
                    .build();
            CuratorCache cache = start(sessions.first(), path, listener);
            return new Round() {
                private int changes;

                @Override
                public void run(Samples samples) throws Exception {
                    for (int turn = 0; turn < operations; turn++) {
                        String node = node(path, (int) ((long) turn * NODES / operations));
                        long began = System.nanoTime();
                        CountDownLatch written = new CountDownLatch(1);
                        writing.setData().inBackground((unused, event) -> written.countDown()).forPath(node, payload);
                        String told = changed.poll(60, TimeUnit.SECONDS);
                        if (!node.equals(told)) {
                            throw new IllegalStateException(told + " instead of " + node);
                        }
                        written.await();
                        samples.add(System.nanoTime() - began);
                        changes++;
                    }
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return "changes=" + changes;
                }

                @Override
                public void close() {
                    cache.close();
                }
            };
        }

        @Override
        public void close() {
            sessions.close();
        }
    }

    /** Caches of several clients, whose connections the harness cuts; it writes to some nodes meanwhile. */
    static final class Reconnect implements Workload {
        private final Sessions sessions;
        private final Options options;
        private final int nodes;
        private final int changes;

        Reconnect(Options options, int clients, int nodes, int changes) throws InterruptedException {
            this.options = options;
            this.nodes = nodes;
            this.changes = changes;
            sessions = new Sessions(options, clients);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            byte[] payload = payload(options);
            plant(sessions.first(), path, nodes, payload);
            Semaphore told = new Semaphore(0);
            CuratorCacheListener listener = CuratorCacheListener.builder()
                    .forChanges((before, after) -> told.release())
                    .build();
            List<CuratorCache> caches = new ArrayList<>();
            for (int client = 0; client < sessions.count(); client++) {
                caches.add(start(sessions.get(client), path, listener));
            }
            return new Round() {
                @Override
                public void run(Samples samples) throws Exception {
                    for (int turn = 0; turn < operations && changes > 0; turn++) {
                        if (!told.tryAcquire(changes * caches.size(), 240, TimeUnit.SECONDS)) {
                            throw new IllegalStateException("changes are missing");
                        }
                        CuratorPeer.say("seen");
                    }
                    CuratorPeer.await("tell");
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    int[] seen = new int[2];
                    for (CuratorCache cache : caches) {
                        cache.stream().filter(node -> !node.getPath().equals(path)).forEach(node -> {
                            seen[0]++;
                            seen[1] += Arrays.equals(node.getData(), payload) ? 0 : 1;
                        });
                    }
                    return "nodes=" + seen[0] + " changed=" + seen[1];
                }

                @Override
                public void close() {
                    caches.forEach(CuratorCache::close);
                }
            };
        }

        @Override
        public void close() {
            sessions.close();
        }
    }
}
