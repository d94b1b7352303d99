import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.data.Stat;

/**
 * Acquires Apache Curator's InterProcessMutex once and prints what that leaves under the lock path.
 *
 * <p>Arguments: connectString lockPath. For each child, in the order of Curator's participants, prints
 * "CHILD path ephemeralOwner session data", the numbers in hexadecimal. That the lock path is a container cannot
 * be seen by clients (the server reports no owner): only that the server removes it some time after the end.
 */
public final class CuratorMutexLayout {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .retryPolicy(new RetryOneTime(100))
                .defaultData("label".getBytes(StandardCharsets.UTF_8))
                .build()) {
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
            if (!mutex.acquire(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not acquired");
            }
            long session = client.getZookeeperClient().getZooKeeper().getSessionId();
            for (String path : mutex.getParticipantNodes()) {
                Stat stat = new Stat();
                byte[] data = client.getData().storingStatIn(stat).forPath(path);
                System.out.println("CHILD " + path + " " + Long.toHexString(stat.getEphemeralOwner()) + " "
                        + Long.toHexString(session) + " " + new String(data, StandardCharsets.UTF_8));
            }
            mutex.release();
        }
    }
}
