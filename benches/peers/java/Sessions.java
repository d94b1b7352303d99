import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Clients that are connected, each with a session of its own. */
final class Sessions implements AutoCloseable {
    private final List<CuratorFramework> clients = new ArrayList<>();

    Sessions(Options options, int count) throws InterruptedException {
        for (int index = 0; index < count; index++) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(options.connect)
                    .sessionTimeoutMs(options.sessionTimeoutMs)
                    .connectionTimeoutMs(15_000)
                    .retryPolicy(new ExponentialBackoffRetry(100, 5))
                    .build();
            clients.add(client);
            client.start();
        }
        for (CuratorFramework client : clients) {
            if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not connected to " + options.connect);
            }
        }
    }

    int count() {
        return clients.size();
    }

    CuratorFramework get(int index) {
        return clients.get(index);
    }

    CuratorFramework first() {
        return clients.get(0);
    }

    /** Each takes a tenth of a second, one after the other: they share a lock in ZooKeeper's client, which sleeps. */
    @Override
    public void close() {
        clients.forEach(CuratorFramework::close);
    }
}
