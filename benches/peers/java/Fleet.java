import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.state.ConnectionState;

/** Many sessions that come back after an outage: each reads when its listener reports the new connection. */
final class Fleet implements Workload {
    private final Sessions sessions;
    private final Options options;

    Fleet(Options options) throws InterruptedException {
        this.options = options;
        sessions = new Sessions(options, options.size);
    }

    private List<Long> ids() throws Exception {
        List<Long> ids = new ArrayList<>();
        for (int index = 0; index < sessions.count(); index++) {
            ids.add(sessions.get(index).getZookeeperClient().getZooKeeper().getSessionId());
        }
        return ids;
    }

    @Override
    public Round prepare(String path, int operations) throws Exception {
        byte[] payload = new byte[options.payload];
        Arrays.fill(payload, (byte) 7);
        sessions.first().create().creatingParentsIfNeeded().forPath(path, payload);
        AtomicLong bytes = new AtomicLong();
        Semaphore back = new Semaphore(0);
        for (int index = 0; index < sessions.count(); index++) {
            sessions.get(index).getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.RECONNECTED) {
                    read(client, path, bytes, back);
                }
            });
        }
        List<Long> before = ids();
        return new Round() {
            private int kept;

            @Override
            public void run(Samples samples) throws Exception {
                for (int turn = 0; turn < operations; turn++) {
                    if (!back.tryAcquire(sessions.count(), 240, TimeUnit.SECONDS)) {
                        throw new IllegalStateException("sessions are missing");
                    }
                    CuratorPeer.say("seen");
                    List<Long> after = ids();
                    for (int index = 0; index < before.size(); index++) {
                        kept += before.get(index).equals(after.get(index)) ? 1 : 0;
                    }
                }
                CuratorPeer.await("tell");
            }

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return "bytes=" + bytes + " kept=" + kept;
            }
        };
    }

    private static void read(CuratorFramework client, String path, AtomicLong bytes, Semaphore back) {
        try {
            client.getData().inBackground((unused, event) -> {
                if (event.getResultCode() == 0) {
                    bytes.addAndGet(event.getData().length);
                    back.release();
                }
            }).forPath(path);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() {
        sessions.close();
    }
}
