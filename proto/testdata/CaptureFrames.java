import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Sends every request that Apache ZooKeeper's client can send, for scripts/capture-frames to record.
 *
 * <p>Arguments: connect string of the recording proxy, connect string of the server itself. The proxy cuts the
 * connection on which it has seen the response to a request for a node named "cut".
 */
public final class CaptureFrames {
    private static final int TIMEOUT_MS = 4000;

    /** A handle and its events. */
    private static final class Client implements Watcher, AutoCloseable {
        final BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        final ZooKeeper zk;

        Client(String connectString, boolean readOnly) throws Exception {
            zk = new ZooKeeper(connectString, TIMEOUT_MS, this, readOnly);
            expect(EventType.None, KeeperState.SyncConnected, null);
        }

        @Override
        public void process(WatchedEvent event) {
            events.add(event);
        }

        void expect(EventType type, KeeperState state, String path) throws Exception {
            WatchedEvent event = events.poll(20, TimeUnit.SECONDS);
            boolean right = event != null && event.getType() == type && event.getState() == state
                    && (path == null ? event.getPath() == null : path.equals(event.getPath()));
            if (!right) {
                throw new IllegalStateException("expected " + type + " " + state + " " + path + ", got " + event);
            }
        }

        void expect(EventType type, String path) throws Exception {
            expect(type, KeeperState.SyncConnected, path);
        }

        @Override
        public void close() throws Exception {
            zk.close();
        }
    }

    private interface Call {
        void run() throws Exception;
    }

    private static void fails(Code code, Call call) throws Exception {
        try {
            call.run();
        } catch (KeeperException error) {
            if (error.code() == code) {
                return;
            }
            throw error;
        }
        throw new IllegalStateException("expected " + code);
    }

    public static void main(String[] args) throws Exception {
        try (Client other = new Client(args[1], false)) {
            try (Client client = new Client(args[0], false)) {
                nodes(client.zk);
                transactions(client.zk);
                watches(client);
                reconnect(client, other.zk, false);
                reconnect(client, other.zk, true);
                rest(client.zk);
                Thread.sleep(TIMEOUT_MS / 2); // long enough for a ping
            }
            denied(args[0]);
            expired(args[0]);
        }
    }

    private static void nodes(ZooKeeper zk) throws Exception {
        zk.addAuthInfo("digest", bytes("user:password"));
        zk.create("/p", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/null", null, Ids.READ_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/empty", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/private", bytes("mine"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        zk.create("/\u00e9\u4e2d", bytes("unicode"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/e", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.create("/p/s-", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        zk.create("/p/es-", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        zk.create("/c", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER);
        Stat stat = new Stat();
        zk.create("/t", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 600_000);
        zk.create("/p/t-", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat,
                600_000);
        zk.create("/p2", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
        zk.create("/e2", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
        zk.create("/p/s2-", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL, stat);
        zk.create("/p/es2-", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL, stat);
        zk.create("/c2", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        fails(Code.NODEEXISTS, () -> zk.create("/p", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        fails(Code.NOCHILDRENFOREPHEMERALS,
                () -> zk.create("/e/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        List<ACL> unheardOf = Arrays.asList(new ACL(Perms.ALL, new Id("unheard-of", "me")));
        fails(Code.INVALIDACL, () -> zk.create("/x", null, unheardOf, CreateMode.PERSISTENT));

        zk.exists("/p", false);
        zk.exists("/absent", false);
        zk.exists("/e", false);
        zk.getData("/p", false, stat);
        zk.getData("/null", false, stat);
        zk.getData("/empty", false, stat);
        fails(Code.NONODE, () -> zk.getData("/absent", false, null));
        zk.setData("/p", bytes("changed"), 0);
        zk.setData("/p", null, -1);
        fails(Code.BADVERSION, () -> zk.setData("/p", bytes("late"), 0));
        fails(Code.NOAUTH, () -> zk.setData("/null", bytes("read-only"), -1));
        zk.getChildren("/p", false);
        zk.getChildren("/p2", false);
        zk.getChildren("/p", false, stat);
        zk.getChildren("/", false, stat);
        CountDownLatch synced = new CountDownLatch(1);
        zk.sync("/p", (rc, path, context) -> synced.countDown(), null);
        synced.await();
        fails(Code.NOTEMPTY, () -> zk.delete("/p", -1));
        fails(Code.BADVERSION, () -> zk.delete("/p2", 7));
        zk.delete("/p2", 0);
        zk.delete("/e2", -1);
    }

    private static void transactions(ZooKeeper zk) throws Exception {
        zk.multi(List.of(
                Op.check("/p", -1),
                Op.create("/m", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.create("/m/es-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create("/m/c", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
                Op.create("/m/t", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 600_000),
                Op.setData("/m", bytes("changed"), 0),
                Op.delete("/m/c", 0)));
        fails(Code.BADVERSION, () -> zk.multi(List.of(
                Op.check("/m", 1),
                Op.create("/m/x", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData("/m", bytes("late"), 7),
                Op.delete("/m/t", -1))));
        fails(Code.NONODE, () -> zk.multi(List.of(Op.delete("/absent", -1))));
    }

    private static void watches(Client client) throws Exception {
        ZooKeeper zk = client.zk;
        zk.exists("/w", true);
        zk.create("/w", bytes("data"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        client.expect(EventType.NodeCreated, "/w");
        zk.getData("/w", true, null);
        zk.setData("/w", bytes("changed"), -1);
        client.expect(EventType.NodeDataChanged, "/w");
        zk.getChildren("/w", true);
        zk.create("/w/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        client.expect(EventType.NodeChildrenChanged, "/w");
        zk.getData("/w/x", true, null);
        zk.getChildren("/w", true, null);
        zk.delete("/w/x", -1);
        client.expect(EventType.NodeDeleted, "/w/x");
        client.expect(EventType.NodeChildrenChanged, "/w");
    }

    /** Loses the connection with watches of every kind, some of which fire during the outage. */
    private static void reconnect(Client client, ZooKeeper other, boolean persistent) throws Exception {
        ZooKeeper zk = client.zk;
        String base = persistent ? "/r2" : "/r1";
        for (String path : List.of(base, base + "/data", base + "/quiet")) {
            other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        zk.sync("/", (rc, path, context) -> { }, null);
        if (persistent) {
            zk.addWatch("/r1", AddWatchMode.PERSISTENT);
            zk.addWatch("/r1/quiet", AddWatchMode.PERSISTENT_RECURSIVE);
        }
        zk.getData(base + "/data", true, null);
        zk.getData(base + "/quiet", true, null);
        zk.exists(base + "/absent", true);
        zk.getChildren(base + "/data", true);
        zk.exists("/cut", false);
        client.expect(EventType.None, KeeperState.Disconnected, null);
        other.setData(base + "/data", bytes("changed while away"), -1);
        client.expect(EventType.None, KeeperState.SyncConnected, null);
        client.expect(EventType.NodeDataChanged, base + "/data");
        zk.create(base + "/absent", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        client.expect(EventType.NodeCreated, base + "/absent");
        if (persistent) {
            zk.setData("/r1", bytes("changed"), -1);
            client.expect(EventType.NodeDataChanged, "/r1");
            zk.create("/r1/quiet/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            client.expect(EventType.NodeCreated, "/r1/quiet/x");
        }
    }

    private static void rest(ZooKeeper zk) throws Exception {
        Stat stat = new Stat();
        zk.getACL("/private", stat);
        zk.setACL("/p", Ids.OPEN_ACL_UNSAFE, 0);
        fails(Code.NONODE, () -> zk.getACL("/absent", stat));
        zk.getEphemerals();
        zk.getAllChildrenNumber("/p");
        zk.multi(List.of(Op.getData("/p"), Op.getChildren("/p")));
        zk.removeAllWatches("/r1", Watcher.WatcherType.Any, false);
        zk.whoAmI();
    }

    private static void denied(String connectString) throws Exception {
        try (Client client = new Client(connectString, true)) {
            fails(Code.NOAUTH, () -> client.zk.getData("/private", false, null));
            client.zk.addAuthInfo("unheard-of", bytes("password"));
            client.expect(EventType.None, KeeperState.AuthFailed, null);
        }
    }

    private static void expired(String connectString) throws Exception {
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        try (ZooKeeper zk = new ZooKeeper(connectString, TIMEOUT_MS, events::add, 0x1234567890abcdefL,
                new byte[16])) {
            WatchedEvent event = events.poll(20, TimeUnit.SECONDS);
            while (event != null && event.getState() != KeeperState.Expired) {
                event = events.poll(20, TimeUnit.SECONDS);
            }
            if (event == null) {
                throw new IllegalStateException("the session did not expire");
            }
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
