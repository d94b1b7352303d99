import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.io.IOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.test.InstanceSpec;
import org.apache.curator.test.TestingCluster;
import org.apache.curator.test.TestingServer;
import org.apache.curator.test.TestingZooKeeperServer;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Prints what the recipes of Apache Curator do on a TestingServer and on a TestingCluster. The output must
 * be the same with the classes of Curator, and with the classes that replace them. Only the imports change.
 */
public final class DropInProgram {
    private static final long SECONDS = 60;

    private DropInProgram() {}

    public static void main(String[] arguments) throws Exception {
        try (TestingServer server = new TestingServer(false)) {
            server(server);
        }
        closed();
        try (TestingCluster cluster = new TestingCluster(3)) {
            cluster(cluster);
        }
        specs();
        // Threads of an ensemble of Curator do not end.
        System.exit(0);
    }

    private static CuratorFramework connect(String connectString) throws InterruptedException {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(connectString, 30_000, 20_000, new RetryNTimes(300, 100));
        client.start();
        return client;
    }

    private static boolean accepts(int port) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            return true;
        } catch (IOException error) {
            return false;
        }
    }

    private static void server(TestingServer server) throws Exception {
        // Curator 5.7 chooses the port when the server starts.
        server.start();
        int port = server.getPort();
        System.out.println("address " + server.getConnectString().equals("127.0.0.1:" + port));
        System.out.println("started " + accepts(port) + " " + server.getTempDirectory().isDirectory());
        try (CuratorFramework client = connect(server.getConnectString());
                CuratorFramework other = connect(server.getConnectString())) {
            nodes(client);
            locks(client, other);
            leaders(client, other);
            barriers(client, other);
            counters(client);
            queue(client);
            children(client, other);
            outages(server, client, other);
        }
        server.stop();
        server.stop();
        System.out.println("stopped " + accepts(port));
        server.start();
        System.out.println("started after a stop " + accepts(port));
        server.restart();
        System.out.println("restarted " + accepts(port));
        server.restart();
        System.out.println("restarted again " + accepts(port) + " " + (server.getPort() == port));
    }

    private static void nodes(CuratorFramework client) throws Exception {
        System.out.println(client.create().creatingParentsIfNeeded().forPath("/nodes/a", "one".getBytes(UTF_8)));
        System.out.println(client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/nodes/s-"));
        Stat stat = client.setData().forPath("/nodes/a", "two".getBytes(UTF_8));
        System.out.println(stat.getVersion() + " " + stat.getDataLength() + " " + stat.getNumChildren());
        try {
            client.setData().withVersion(7).forPath("/nodes/a");
        } catch (KeeperException error) {
            System.out.println(error.getMessage());
        }
        try {
            client.delete().forPath("/nodes");
        } catch (KeeperException error) {
            System.out.println(error.getMessage());
        }
        client.transaction()
                .forOperations(
                        client.transactionOp().check().withVersion(1).forPath("/nodes/a"),
                        client.transactionOp().create().forPath("/nodes/t"))
                .forEach(result -> System.out.println(
                        result.getType() + " " + result.getForPath() + " " + result.getError()));
        List<String> children = new ArrayList<>(client.getChildren().forPath("/nodes"));
        Collections.sort(children);
        System.out.println(children);
        client.delete().deletingChildrenIfNeeded().forPath("/nodes");
        System.out.println(client.checkExists().forPath("/nodes"));
    }

    private static void locks(CuratorFramework client, CuratorFramework other) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, "/mutex");
        InterProcessMutex contender = new InterProcessMutex(other, "/mutex");
        mutex.acquire();
        System.out.println("contended " + contender.acquire(100, TimeUnit.MILLISECONDS));
        mutex.release();
        System.out.println("free " + contender.acquire(SECONDS, TimeUnit.SECONDS));
        System.out.println("nodes " + mutex.getParticipantNodes().size());
        contender.release();

        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, "/read-write");
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(other, "/read-write");
        lock.readLock().acquire();
        System.out.println("readers " + second.readLock().acquire(SECONDS, TimeUnit.SECONDS));
        System.out.println("writer " + second.writeLock().acquire(100, TimeUnit.MILLISECONDS));
        second.readLock().release();
        lock.readLock().release();

        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/semaphore", 2);
        List<Lease> leases = new ArrayList<>(semaphore.acquire(2));
        System.out.println("leases " + leases.size() + " " + semaphore.acquire(100, TimeUnit.MILLISECONDS));
        semaphore.returnAll(leases);
    }

    private static void leaders(CuratorFramework client, CuratorFramework other) throws Exception {
        LeaderLatch first = new LeaderLatch(client, "/leader", "first");
        try (LeaderLatch second = new LeaderLatch(other, "/leader", "second")) {
            first.start();
            System.out.println("leader " + first.await(SECONDS, TimeUnit.SECONDS));
            second.start();
            while (first.getParticipants().size() < 2) {
                Thread.onSpinWait();
            }
            Set<String> participants = new TreeSet<>();
            for (Participant participant : first.getParticipants()) {
                participants.add(participant.getId() + " " + participant.isLeader());
            }
            System.out.println(participants);
            first.close();
            System.out.println("successor " + second.await(SECONDS, TimeUnit.SECONDS));
            System.out.println(second.getLeader().getId());
        }
    }

    private static void barriers(CuratorFramework client, CuratorFramework other) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(client, "/barrier");
        barrier.setBarrier();
        System.out.println("barrier " + barrier.waitOnBarrier(100, TimeUnit.MILLISECONDS));
        new DistributedBarrier(other, "/barrier").removeBarrier();
        System.out.println("removed " + barrier.waitOnBarrier(SECONDS, TimeUnit.SECONDS));
        CountDownLatch both = new CountDownLatch(2);
        for (CuratorFramework member : List.of(client, other)) {
            new Thread(() -> {
                try {
                    DistributedDoubleBarrier twofold = new DistributedDoubleBarrier(member, "/double", 2);
                    if (twofold.enter(SECONDS, TimeUnit.SECONDS) && twofold.leave(SECONDS, TimeUnit.SECONDS)) {
                        both.countDown();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }).start();
        }
        System.out.println("double barrier " + both.await(SECONDS, TimeUnit.SECONDS));
    }

    private static void counters(CuratorFramework client) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, "/counter", new RetryNTimes(10, 10));
        System.out.println(counter.initialize(40L) + " " + counter.initialize(1L));
        System.out.println(counter.increment().postValue() + " " + counter.add(5L).postValue());
        System.out.println(counter.compareAndSet(1L, 2L).succeeded() + " " + counter.get().preValue());
        try (SharedCount count = new SharedCount(client, "/shared", 3)) {
            count.start();
            System.out.println(count.getCount());
            System.out.println(count.trySetCount(count.getVersionedValue(), 4) + " " + count.getCount());
        }
    }

    private static void queue(CuratorFramework client) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/queue");
        for (String item : List.of("a", "b", "c")) {
            queue.offer(item.getBytes(UTF_8));
        }
        for (byte[] item : List.of(queue.peek(), queue.take(), queue.poll(), queue.remove())) {
            System.out.println(new String(item, UTF_8));
        }
        System.out.println(queue.poll());
    }

    private static void children(CuratorFramework client, CuratorFramework other) throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        other.create().creatingParentsIfNeeded().forPath("/children/a", "one".getBytes(UTF_8));
        try (PathChildrenCache children = new PathChildrenCache(client, "/children", true)) {
            children.getListenable().addListener((framework, event) -> events.add(
                    event.getType() + (event.getData() == null ? "" : " " + event.getData().getPath())));
            children.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
            // Each change waits for the event of the one before.
            Set<String> initial = new TreeSet<>();
            while (!initial.contains("INITIALIZED")) {
                initial.add(String.valueOf(events.poll(SECONDS, TimeUnit.SECONDS)));
            }
            System.out.println(initial.contains("CHILD_ADDED /children/a"));
            other.create().forPath("/children/b");
            System.out.println(events.poll(SECONDS, TimeUnit.SECONDS));
            other.setData().forPath("/children/a", "two".getBytes(UTF_8));
            System.out.println(events.poll(SECONDS, TimeUnit.SECONDS));
            other.delete().forPath("/children/b");
            System.out.println(events.poll(SECONDS, TimeUnit.SECONDS));
        }
    }

    private static void outages(TestingServer server, CuratorFramework client, CuratorFramework other)
            throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        other.create().creatingParentsIfNeeded().forPath("/cached/a", "one".getBytes(UTF_8));
        CountDownLatch ready = new CountDownLatch(1);
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        try (CuratorCache cache = CuratorCache.build(client, "/cached");
                PersistentNode node =
                        new PersistentNode(client, CreateMode.EPHEMERAL, false, "/present", new byte[0])) {
            BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
            client.getConnectionStateListenable().addListener((framework, state) -> states.add(state));
            node.start();
            System.out.println("node " + node.waitForInitialCreate(SECONDS, TimeUnit.SECONDS));
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .forInitialized(ready::countDown)
                    .forCreates(created -> add(events, ready, "created " + created.getPath()))
                    .forChanges((before, after) -> add(events, ready, "changed " + new String(after.getData(), UTF_8)))
                    .build());
            cache.start();
            System.out.println("cache " + ready.await(SECONDS, TimeUnit.SECONDS));
            server.stop();
            System.out.println(states.poll(SECONDS, TimeUnit.SECONDS));
            server.restart();
            System.out.println(states.poll(SECONDS, TimeUnit.SECONDS));
            long present = client.getZookeeperClient().getZooKeeper().getSessionId();
            System.out.println("same session " + (present == session));
            System.out.println("nodes stay " + new String(client.getData().forPath("/cached/a"), UTF_8) + " "
                    + (client.checkExists().forPath("/present").getEphemeralOwner() == session));
            other.create().forPath("/cached/b");
            other.setData().forPath("/cached/a", "two".getBytes(UTF_8));
            Set<String> seen = new TreeSet<>();
            while (seen.size() < 2) {
                seen.add(String.valueOf(events.poll(SECONDS, TimeUnit.SECONDS)));
            }
            System.out.println(seen);
        }
        System.out.println("node after the end " + (other.checkExists().forPath("/present") == null));
    }

    /** Adds events that happen after the caches are ready. */
    private static void add(BlockingQueue<String> events, CountDownLatch ready, String event) {
        if (ready.getCount() == 0) {
            events.add(event);
        }
    }

    private static void closed() throws Exception {
        File directory = File.createTempFile("testing", "server");
        directory.delete();
        directory.mkdirs();
        TestingServer server = new TestingServer(-1, directory);
        int port = server.getPort();
        System.out.println("directory " + server.getTempDirectory().equals(directory) + " " + accepts(port));
        server.close();
        server.close();
        System.out.println("closed " + directory.exists() + " " + accepts(port));
        server.start();
        System.out.println("started after the end " + accepts(port));
        try {
            server.restart();
        } catch (IllegalStateException error) {
            System.out.println("no restart after the end");
        }
    }

    private static void cluster(TestingCluster cluster) throws Exception {
        System.out.println("members " + cluster.getServers().size() + " " + cluster.getInstances().size() + " "
                + cluster.getConnectString().split(",").length);
        cluster.start();
        try (CuratorFramework client = connect(cluster.getConnectString())) {
            client.create().forPath("/a", "one".getBytes(UTF_8));
            InterProcessMutex mutex = new InterProcessMutex(client, "/mutex");
            mutex.acquire();
            for (InstanceSpec instance : cluster.getInstances()) {
                System.out.println("killed " + cluster.killServer(instance) + " " + accepts(instance.getPort()));
                System.out.println("data " + new String(client.getData().forPath("/a"), UTF_8));
                System.out.println("restarted " + cluster.restartServer(instance));
                client.setData().forPath("/a", "two".getBytes(UTF_8));
            }
            mutex.release();
            System.out.println("released " + mutex.getParticipantNodes().size());
            System.out.println("unknown " + cluster.killServer(InstanceSpec.newInstanceSpec()));
            for (TestingZooKeeperServer server : cluster.getServers()) {
                server.stop();
                System.out.println("stopped " + accepts(server.getInstanceSpec().getPort()));
            }
        }
    }

    private static void specs() throws Exception {
        InstanceSpec.reset();
        InstanceSpec spec = InstanceSpec.newInstanceSpec();
        System.out.println(spec.getServerId() + " " + spec.getTickTime() + " " + spec.getMaxClientCnxns() + " "
                + spec.deleteDataDirectoryOnClose() + " " + spec.getHostname() + " " + spec.getCustomProperties());
        System.out.println(spec.getConnectString().equals("127.0.0.1:" + spec.getPort()) + " "
                + spec.equals(new InstanceSpec(null, spec.getPort(), -1, -1, false, 9)) + " "
                + TestingCluster.makeSpecs(3).keySet().iterator().next().getServerId());
        try (TestingServer server = new TestingServer(spec, true)) {
            System.out.println((server.getPort() == spec.getPort()) + " " + accepts(spec.getPort()));
        }
    }
}
