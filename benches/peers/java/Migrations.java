import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.imps.ExtractingCuratorOp;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.NoNodeException;

/** Sets of migrations that every session applies at the same time, by the steps of Curator's MigrationManager. */
final class Migrations implements Workload {
    /** The migrations that a fleet finds missing. */
    static final int MISSING = 3;

    private final Contenders managers;
    private final int count;
    private final boolean areNew;

    /** So many sessions and migrations; either all migrations are missing, each time, or none. */
    Migrations(Options options, int sessions, int count, boolean areNew) throws InterruptedException {
        managers = new Contenders(options, sessions);
        this.count = count;
        this.areNew = areNew;
    }

    /** Migrations that each create one node. */
    private final class Set {
        private final CuratorFramework client;
        private final String lock;
        private final String records;
        private final List<List<CuratorOp>> migrations = new ArrayList<>();

        Set(CuratorFramework client, String path, int number) throws Exception {
            this.client = client;
            lock = path + "/locks/set-" + number;
            records = path + "/meta/set-" + number;
            for (int index = 0; index < count; index++) {
                String node = path + "/nodes/" + number + "-" + index;
                migrations.add(List.of(client.transactionOp().create().forPath(node, new byte[0])));
            }
        }

        Outcome migrate() throws Exception {
            InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, lock);
            mutex.acquire();
            try {
                int already = already();
                return new Outcome(already, apply(migrations.subList(already, count)));
            } finally {
                mutex.release();
            }
        }

        private int already() throws Exception {
            List<byte[]> found;
            try {
                found = Children.data(client, records);
            } catch (NoNodeException nothing) {
                return 0;
            }
            for (int index = 0; index < found.size(); index++) {
                if (!Arrays.equals(found.get(index), digest(migrations.get(index)))) {
                    throw new IllegalStateException("another migration: " + index);
                }
            }
            return found.size();
        }

        private int apply(List<List<CuratorOp>> missing) throws Exception {
            if (missing.isEmpty()) {
                return 0;
            }
            client.createContainers(records);
            List<CuratorOp> operations = new ArrayList<>();
            for (List<CuratorOp> migration : missing) {
                operations.addAll(migration);
                operations.add(client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                        .forPath(records + "/meta-", digest(migration)));
            }
            // Two operations for each: the node and the record.
            return client.transaction().forOperations(operations).size() / 2;
        }
    }

    private record Outcome(int already, int applied) {}

    private static byte[] digest(List<CuratorOp> operations) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (CuratorOp operation : operations) {
            ((ExtractingCuratorOp) operation).addToDigest(digest);
        }
        return digest.digest();
    }

    @Override
    public Round prepare(String path, int operations) throws Exception {
        managers.first().create().creatingParentsIfNeeded().forPath(path + "/nodes");
        if (!areNew) {
            new Set(managers.first(), path, 0).migrate();
        }
        return new Round() {
            private final AtomicInteger already = new AtomicInteger();
            private final AtomicInteger applied = new AtomicInteger();
            private final AtomicInteger returned = new AtomicInteger();
            private volatile long began;

            @Override
            public void run(Samples samples) throws Exception {
                int all = managers.count();
                CyclicBarrier beginning = new CyclicBarrier(all, () -> began = System.nanoTime());
                managers.run((number, client) -> {
                    Set set = new Set(client, path, 0);
                    for (int turn = 1; turn <= operations; turn++) {
                        if (areNew) {
                            set = new Set(client, path, turn);
                        }
                        beginning.await();
                        Outcome outcome = set.migrate();
                        if (returned.incrementAndGet() == turn * all) {
                            samples.add(System.nanoTime() - began);
                        }
                        already.addAndGet(outcome.already());
                        applied.addAndGet(outcome.applied());
                    }
                });
            }

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return areNew ? "applied=" + applied : "already=" + already;
            }
        };
    }

    @Override
    public void close() {
        managers.close();
    }
}
