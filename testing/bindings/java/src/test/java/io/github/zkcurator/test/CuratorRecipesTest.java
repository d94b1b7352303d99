package io.github.zkcurator.test;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The recipes of Apache Curator with faults. */
@Timeout(120)
class CuratorRecipesTest {
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final long SECONDS = 30;

    private ZkTestServer server;
    private CuratorFramework one;
    private CuratorFramework two;

    @BeforeEach
    void start() throws InterruptedException {
        server = new ZkTestServer();
        one = Clients.start(server.getConnectString());
        two = Clients.start(server.getConnectString());
    }

    @AfterEach
    void end() {
        server.reset();
        one.close();
        two.close();
        server.close();
    }

    @Test
    void aMutexFindsTheNodeWhoseReplyWasLost() throws Exception {
        InterProcessMutex first = new InterProcessMutex(one, "/locks/orders");
        InterProcessMutex second = new InterProcessMutex(two, "/locks/orders");
        RuleSpec secondCreate = RuleSpec.loseReply().on(Operation.CREATE).under("/locks/orders").after(1).times(1);
        try (Rule lost = server.addRule(secondCreate)) {
            assertTrue(first.acquire(SECONDS, TimeUnit.SECONDS));
            CompletableFuture<Boolean> acquired = new CompletableFuture<>();
            Thread waiter = new Thread(() -> {
                try {
                    acquired.complete(second.acquire(SECONDS, TimeUnit.SECONDS));
                    second.release();
                } catch (Exception error) {
                    acquired.completeExceptionally(error);
                }
            });
            waiter.start();
            lost.awaitHits(1, WAIT);
            // Without protection, the node without owner would block everybody.
            server.until(Condition.children("/locks/orders", 2), WAIT);
            first.release();
            assertTrue(acquired.get(SECONDS, TimeUnit.SECONDS));
            waiter.join();
            assertEquals(1, lost.hits());
        }
        server.until(Condition.children("/locks/orders", 0), WAIT);
    }

    @Test
    void aLeaderWhoseSessionExpiresIsReplaced() throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        try (LeaderLatch first = new LeaderLatch(one, "/leader", "first");
                LeaderLatch second = new LeaderLatch(two, "/leader", "second")) {
            first.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {}

                @Override
                public void notLeader() {
                    lost.countDown();
                }
            });
            first.start();
            assertTrue(first.await(SECONDS, TimeUnit.SECONDS));
            second.start();
            server.until(Condition.children("/leader", 2), WAIT);
            server.expire(Clients.session(one));
            assertTrue(second.await(SECONDS, TimeUnit.SECONDS));
            assertTrue(lost.await(SECONDS, TimeUnit.SECONDS));
            assertFalse(first.hasLeadership());
            // The first one is a candidate again.
            server.until(Condition.children("/leader", 2), WAIT);
            assertEquals("second", first.getLeader().getId());
        }
    }

    @Test
    @SuppressWarnings("deprecation")
    void cachesSeeWhatHappenedInAnOutage() throws Exception {
        one.create().creatingParentsIfNeeded().forPath("/config/a", "old".getBytes(UTF_8));
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        CountDownLatch ready = new CountDownLatch(2);
        try (CuratorCache cache = CuratorCache.build(one, "/config");
                TreeCache tree = new TreeCache(one, "/config")) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .forInitialized(ready::countDown)
                    .forChanges((before, after) -> events.add("cache " + text(after)))
                    .build());
            tree.getListenable().addListener((client, event) -> {
                if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                    ready.countDown();
                } else if (event.getType() == TreeCacheEvent.Type.NODE_UPDATED) {
                    events.add("tree " + text(event.getData()));
                }
            });
            cache.start();
            tree.start();
            assertTrue(ready.await(SECONDS, TimeUnit.SECONDS));
            server.until(Condition.watches("/config/a", 1), WAIT);

            // The first client hears nothing while the second one writes.
            try (Rule deaf = server.addRule(RuleSpec.disconnect().session(Clients.session(one)))) {
                server.disconnect(Clients.session(one));
                server.until(Condition.sessionDisconnected(Clients.id(one)), WAIT);
                two.setData().forPath("/config/a", "new".getBytes(UTF_8));
            }
            Set<String> seen = new TreeSet<>();
            while (seen.size() < 2) {
                String event = events.poll(SECONDS, TimeUnit.SECONDS);
                assertTrue(event != null, "only " + seen);
                seen.add(event);
            }
            assertEquals(Set.of("cache /config/a new", "tree /config/a new"), seen);
        }
    }

    private static String text(ChildData data) {
        return data.getPath() + " " + new String(data.getData(), UTF_8);
    }

    @Test
    void aCounterCountsTwiceWhenAReplyIsLost() throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(one, "/count", new RetryNTimes(10, 10));
        assertTrue(counter.initialize(5L));
        try (Rule lost = server.addRule(RuleSpec.loseReply().on(Operation.SET_DATA).path("/count").times(1))) {
            AtomicValue<Long> value = counter.increment();
            assertTrue(value.succeeded());
            assertEquals(1, lost.hits());
            // Curator repeats the write, because it cannot know that the first one was applied.
            assertEquals(7L, value.postValue());
        }
        assertEquals(2, server.probe().getNode("/count").orElseThrow().getVersion());
    }

    @Test
    void aQueueDeliversEachItemAfterLostRequests() throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                taken.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        QueueSerializer<String> serializer = new QueueSerializer<>() {
            @Override
            public byte[] serialize(String item) {
                return item.getBytes(UTF_8);
            }

            @Override
            public String deserialize(byte[] bytes) {
                return new String(bytes, UTF_8);
            }
        };
        RuleSpec lose = RuleSpec.loseRequest().under("/queue").after(1);
        try (Rule reads = server.addRule(lose.on(Operation.GET_DATA).times(2));
                Rule puts = server.addRule(lose.on(Operation.CREATE).times(1));
                DistributedQueue<String> producer =
                        QueueBuilder.builder(two, null, serializer, "/queue").buildQueue();
                DistributedQueue<String> queue =
                        QueueBuilder.builder(one, consumer, serializer, "/queue").buildQueue()) {
            producer.start();
            queue.start();
            Set<String> missing = new TreeSet<>();
            for (int item = 0; item < 5; item++) {
                producer.put("item " + item);
                missing.add("item " + item);
            }
            while (!missing.isEmpty()) {
                String item = taken.poll(SECONDS, TimeUnit.SECONDS);
                assertTrue(item != null, "never delivered: " + missing);
                missing.remove(item);
            }
            assertEquals(2, reads.hits());
            assertEquals(1, puts.hits());
        }
    }

    @Test
    void waitersAtABarrierSurviveARestart() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(one, "/barrier");
        barrier.setBarrier();
        CompletableFuture<Boolean> passed = new CompletableFuture<>();
        new Thread(() -> {
            try {
                passed.complete(new DistributedBarrier(two, "/barrier").waitOnBarrier(SECONDS, TimeUnit.SECONDS));
            } catch (Exception error) {
                passed.completeExceptionally(error);
            }
        }).start();
        server.until(Condition.watches("/barrier", 1), WAIT);
        server.restart();
        server.until(Condition.watches("/barrier", 1), WAIT);
        assertFalse(passed.isDone());
        barrier.removeBarrier();
        assertTrue(passed.get(SECONDS, TimeUnit.SECONDS));
    }

    @Test
    void aPersistentNodeComesBack() throws Exception {
        try (PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/member", new byte[] {1})) {
            node.start();
            assertTrue(node.waitForInitialCreate(SECONDS, TimeUnit.SECONDS));
            long before = Clients.id(one);
            // The node of the session is deleted before the call returns.
            server.expire(before);
            server.until(Condition.exists("/member"), WAIT);
            Probe.Node now = server.probe().getNode("/member").orElseThrow();
            assertNotEquals(before, now.getOwner().orElseThrow());
            assertArrayEquals(new byte[] {1}, now.getData());
        }
        server.until(Condition.absent("/member"), WAIT);
    }

    @Test
    void aMutexInAnEnsembleSurvivesItsLeader() throws Exception {
        try (ZkTestCluster cluster = new ZkTestCluster(3);
                CuratorFramework client = Clients.start(cluster.getConnectString())) {
            InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
            mutex.acquire();
            cluster.stop(cluster.leader().orElseThrow());
            cluster.until(Condition.leader(true), WAIT);
            cluster.until(Condition.children("/lock", 1), WAIT);
            mutex.release();
            cluster.until(Condition.children("/lock", 0), WAIT);
            assertEquals(List.of(), client.getChildren().forPath("/lock"));
        }
    }
}
