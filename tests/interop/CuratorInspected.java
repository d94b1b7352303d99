import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;

/**
 * Two clients, one and two, contend for Apache Curator's recipes: in each, one holds and two waits.
 *
 * <p>Arguments: connectString base. Prints READY when all nodes exist, and keeps them until its input ends.
 */
public final class CuratorInspected {
    private interface Body {
        void run() throws Exception;
    }

    /** A mutex with a label. */
    private static final class Mutex extends InterProcessMutex {
        private final String label;

        Mutex(CuratorFramework client, String path, String label) {
            super(client, path);
            this.label = label;
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return bytes(label);
        }
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework one = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS);
                CuratorFramework two = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            String base = args[1];
            new Mutex(one, base + "/mutex", "one").acquire();
            inBackground(() -> new Mutex(two, base + "/mutex", "two").acquire());
            until(one, base + "/mutex", 2);

            new InterProcessReadWriteLock(one, base + "/rw", bytes("one")).readLock().acquire();
            inBackground(() -> new InterProcessReadWriteLock(two, base + "/rw", bytes("two")).writeLock().acquire());
            until(one, base + "/rw", 2);

            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(one, base + "/semaphore", 1);
            semaphore.setNodeData(bytes("one"));
            semaphore.acquire();
            inBackground(() -> {
                InterProcessSemaphoreV2 other = new InterProcessSemaphoreV2(two, base + "/semaphore", 1);
                other.setNodeData(bytes("two"));
                other.acquire();
            });
            until(one, base + "/semaphore/leases", 2);

            LeaderLatch leader = new LeaderLatch(one, base + "/latch", "one");
            leader.start();
            leader.await(60, TimeUnit.SECONDS);
            new LeaderLatch(two, base + "/latch", "two").start();
            until(one, base + "/latch", 2);

            inBackground(() -> new DistributedDoubleBarrier(two, base + "/double", 2).enter());
            until(one, base + "/double", 1);
            new SimpleDistributedQueue(one, base + "/queue").offer(bytes("one"));
            new GroupMember(one, base + "/group", "one", bytes("one")).start();
            until(one, base + "/group", 1);
            System.out.println("READY");
            System.out.flush();
            while (System.in.read() >= 0) {
                // Until the input ends.
            }
        }
        System.exit(0);
    }

    private static void inBackground(Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception interrupted) {
                // At the end.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void until(CuratorFramework client, String path, int children) throws Exception {
        while (client.checkExists().forPath(path) == null || client.getChildren().forPath(path).size() < children) {
            Thread.sleep(20);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
