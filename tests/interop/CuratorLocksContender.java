import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.CreateMode;

/**
 * Contends for Apache Curator's locks, one thread for each kind, and proves what they promise without trusting them.
 *
 * <p>Whoever is inside creates an ephemeral node below BASE/witness/KIND, named after its role and label, and then lists
 * them: of two that must not be inside together, the later one sees the earlier one.
 *
 * <p>Arguments: "contend" connectString base rounds label, or "revoke" connectString base. Prints "HELD kind role" for every
 * grant, and at last "DONE". Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 violation.
 */
public final class CuratorLocksContender {
    private static final int LEASES = 2;

    private final CuratorFramework client;
    private final String base;
    private final String label;
    private final int rounds;

    private CuratorLocksContender(CuratorFramework client, String base, int rounds, String label) {
        this.client = client;
        this.base = base;
        this.rounds = rounds;
        this.label = label;
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 3) {
            System.err.println("arguments: contend connectString base rounds label | revoke connectString base");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[1], CuratorClient.SHORT_SESSION_MILLIS)) {
            if (args[0].equals("contend")) {
                new CuratorLocksContender(client, args[2], Integer.parseInt(args[3]), args[4]).contend();
            } else {
                new CuratorLocksContender(client, args[2], 0, "java").revoke();
            }
        }
        System.out.println("DONE");
    }

    private interface Body {
        void run(Random random) throws Exception;
    }

    private void contend() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        all.add(start(threads, this::mutex));
        all.add(start(threads, this::semaphoreMutex));
        all.add(start(threads, this::readWrite));
        all.add(start(threads, this::semaphore));
        all.add(start(threads, this::multi));
        for (Future<?> one : all) {
            one.get();
        }
        threads.shutdown();
    }

    private Future<?> start(ExecutorService threads, Body body) {
        return threads.submit(() -> {
            Random random = new Random(label.hashCode());
            for (int round = 0; round < rounds; round++) {
                body.run(random);
            }
            return null;
        });
    }

    private void mutex(Random random) throws Exception {
        alone("mutex", new InterProcessMutex(client, base + "/mutex"));
    }

    private void semaphoreMutex(Random random) throws Exception {
        alone("semaphore-mutex", new InterProcessSemaphoreMutex(client, base + "/semaphore-mutex"));
    }

    private void multi(Random random) throws Exception {
        // In the order of their paths, as the other side does.
        List<String> paths = new ArrayList<>(Arrays.asList(base + "/multi/a", base + "/multi/b", base + "/multi/c"));
        paths.remove(random.nextInt(3));
        alone("multi", new InterProcessMultiLock(client, paths));
    }

    private void alone(String kind, InterProcessLock lock) throws Exception {
        acquire(lock);
        enter(kind, "writer");
        leave(kind, "writer");
        lock.release();
    }

    private void readWrite(Random random) throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, base + "/read-write");
        if (random.nextBoolean()) {
            acquire(lock.readLock());
            enter("read-write", "reader");
            leave("read-write", "reader");
            lock.readLock().release();
            return;
        }
        acquire(lock.writeLock());
        enter("read-write", "writer");
        // Before Curator 5.5, who goes on as a reader lets in any writer that waits (CURATOR-621).
        boolean becomesReader = version() >= 5.5 && random.nextBoolean();
        if (becomesReader) {
            acquire(lock.readLock());
        }
        leave("read-write", "writer");
        lock.writeLock().release();
        if (becomesReader) {
            enter("read-write", "reader");
            leave("read-write", "reader");
            lock.readLock().release();
        }
    }

    /** Of Curator, major and minor. */
    private static double version() throws IOException {
        Properties properties = new Properties();
        try (InputStream pom = InterProcessReadWriteLock.class.getResourceAsStream(
                "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties")) {
            properties.load(pom);
        }
        String[] parts = properties.getProperty("version").split("\\.");
        return Double.parseDouble(parts[0] + "." + parts[1]);
    }

    private void semaphore(Random random) throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, base + "/semaphore", LEASES);
        Lease lease = semaphore.acquire(60, TimeUnit.SECONDS);
        if (lease == null) {
            throw new IllegalStateException("not acquired");
        }
        enter("semaphore", "lease");
        leave("semaphore", "lease");
        semaphore.returnLease(lease);
    }

    private static void acquire(InterProcessLock lock) throws Exception {
        if (!lock.acquire(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not acquired");
        }
    }

    private void enter(String kind, String role) throws Exception {
        String place = base + "/witness/" + kind;
        client.create().withMode(CreateMode.EPHEMERAL).forPath(place + "/" + role + "-" + label);
        List<String> inside = client.getChildren().forPath(place);
        long writers = inside.stream().filter(name -> name.startsWith("writer")).count();
        boolean violated = role.equals("writer") ? inside.size() > 1
                : role.equals("reader") ? writers > 0 : inside.size() > LEASES;
        if (violated) {
            System.out.println("VIOLATION " + kind + " " + role + " " + label + " among " + inside);
            System.exit(3);
        }
        synchronized (System.out) {
            System.out.println("HELD " + kind + " " + role);
        }
    }

    private void leave(String kind, String role) throws Exception {
        client.delete().guaranteed().forPath(base + "/witness/" + kind + "/" + role + "-" + label);
    }

    /** Lets the other side ask us to let go, and then asks the other side. */
    private void revoke() throws Exception {
        InterProcessMutex lock = new InterProcessMutex(client, base);
        Thread holder = Thread.currentThread();
        lock.makeRevocable(asked -> holder.interrupt());
        lock.acquire();
        System.out.println("HELD revocable writer");
        try {
            Thread.sleep(60_000);
            throw new IllegalStateException("never asked to let go");
        } catch (InterruptedException asked) {
            System.out.println("ASKED");
        }
        lock.release();
        // The other side has the lock next; its node is the only one.
        List<String> nodes = client.getChildren().forPath(base);
        while (nodes.size() != 1) {
            Thread.sleep(20);
            nodes = client.getChildren().forPath(base);
        }
        Revoker.attemptRevoke(client, base + "/" + nodes.get(0));
        lock.acquire();
        System.out.println("HELD again writer");
        lock.release();
    }
}
