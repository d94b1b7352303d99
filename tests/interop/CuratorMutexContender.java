import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.NodeExistsException;
import org.apache.zookeeper.KeeperException.NoNodeException;
import org.apache.zookeeper.data.Stat;

/**
 * Contends for Apache Curator's InterProcessMutex, and proves mutual exclusion without trusting the lock.
 *
 * <p>Whoever holds the lock creates the ephemeral node WITNESS with its label as data, adds one to the number
 * in the node COUNTER in two steps (read, then write with any version), deletes WITNESS and releases. Two
 * holders at once would meet at WITNESS, or lose an increment of COUNTER.
 *
 * <p>Arguments: connectString lockPath rounds label witnessPath counterPath. COUNTER must exist and hold a
 * decimal number; the parent of WITNESS must exist. Labels must differ.
 *
 * <p>Prints "HELD label round lockNode" once a round, and at last "DONE". Exit codes: 0 done, 1 failed,
 * 2 wrong arguments, 3 two holders ("VIOLATION label round other"), 4 not acquired in 60 s.
 */
public final class CuratorMutexContender {
    /** Makes the path of our lock node visible; Curator keeps it for subclasses. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 6) {
            System.err.println("arguments: connectString lockPath rounds label witnessPath counterPath");
            System.exit(2);
        }
        int rounds = Integer.parseInt(args[2]);
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            Mutex mutex = new Mutex(client, args[1]);
            for (int round = 0; round < rounds; round++) {
                if (!mutex.acquire(60, TimeUnit.SECONDS)) {
                    System.out.println("TIMEOUT " + args[3] + " " + round);
                    System.exit(4);
                }
                enter(client, args[3], round, args[4]);
                System.out.println("HELD " + args[3] + " " + round + " " + mutex.node());
                long count = Long.parseLong(text(client.getData().forPath(args[5])));
                client.setData().forPath(args[5], bytes(Long.toString(count + 1)));
                client.delete().quietly().forPath(args[4]);
                mutex.release();
            }
        }
        System.out.println("DONE");
    }

    /** Creates the witness; ends the process when somebody else's is there. */
    private static void enter(CuratorFramework client, String label, int round, String witness)
            throws Exception {
        try {
            client.create().withMode(CreateMode.EPHEMERAL).forPath(witness, bytes(label));
        } catch (NodeExistsException exists) {
            // Our own, when the answer to the first attempt was lost and Curator tried again.
            String other = "already gone";
            try {
                Stat stat = new Stat();
                other = text(client.getData().storingStatIn(stat).forPath(witness));
                long session = client.getZookeeperClient().getZooKeeper().getSessionId();
                if (other.equals(label) && stat.getEphemeralOwner() == session) {
                    return;
                }
            } catch (NoNodeException gone) {
                // It was there a moment ago, which is violation enough.
            }
            System.out.println("VIOLATION " + label + " " + round + " " + other);
            System.exit(3);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
