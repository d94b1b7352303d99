import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.BlockingQueueConsumer;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.QueueSharder;
import org.apache.curator.framework.recipes.queue.QueueSharderPolicies;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** The queues of Apache Curator. */
final class CuratorQueues {
    private static final QueueSerializer<String> SERIALIZER = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return Transcript.bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes);
        }
    };

    private final CuratorFramework client;
    private final CuratorFramework other;

    CuratorQueues(CuratorFramework client, CuratorFramework other) {
        this.client = client;
        this.other = other;
    }

    void run() throws Exception {
        Transcript.chapter("queues");
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        try (DistributedQueue<String> queue = builder("/queue", null).buildQueue()) {
            queue.start();
            queue.put("one");
            Iterator<String> more = List.of("two", "and a half").iterator();
            queue.putMulti(() -> more.hasNext() ? more.next() : null);
            queue.flushPuts(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            Transcript.tree(client, "/queue");
            try (DistributedQueue<String> consumer = builder("/queue", taken).buildQueue()) {
                consumer.start();
                take(taken, 3);
                queue.put("three");
                take(taken, 1);
            }
        }
        client.create().forPath("/queue-lock");
        try (DistributedQueue<String> safe = builder("/safe", taken).lockPath("/queue-lock").buildQueue()) {
            safe.start();
            safe.put("safely");
            take(taken, 1);
            Transcript.until(() ->
                    Transcript.children(client, "/safe") == 0 && Transcript.children(client, "/queue-lock") == 0);
        }
        try (DistributedIdQueue<String> queue = builder("/ids", null).buildIdQueue()) {
            queue.start();
            queue.put("a", "alpha");
            queue.put("b", "beta");
            queue.flushPuts(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            Transcript.tree(client, "/ids");
            Transcript.say(queue.remove("alpha"), queue.remove("none"));
            try (DistributedIdQueue<String> consumer = builder("/ids", taken).buildIdQueue()) {
                consumer.start();
                take(taken, 1);
            }
        }
        try (DistributedPriorityQueue<String> queue = builder("/priorities", null).buildPriorityQueue(10)) {
            queue.start();
            queue.put("late", 200);
            queue.put("soon", 5);
            queue.put("first", -5);
            queue.flushPuts(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            Transcript.tree(client, "/priorities");
            try (DistributedPriorityQueue<String> consumer = builder("/priorities", taken).buildPriorityQueue(10)) {
                consumer.start();
                take(taken, 3);
            }
        }
        try (DistributedDelayQueue<String> queue = builder("/delays", taken).buildDelayQueue()) {
            queue.start();
            queue.put("later", System.currentTimeMillis() + 300);
            queue.put("now", System.currentTimeMillis());
            take(taken, 2);
        }
        blockingConsumer();
        sharder();
        SimpleDistributedQueue simple = new SimpleDistributedQueue(client, "/simple");
        Transcript.say(simple.offer(Transcript.bytes("1")), simple.offer(Transcript.bytes("2")),
                simple.peek(), simple.poll(), simple.remove(), simple.poll());
        Transcript.attempt("element of nothing", simple::element);
        Thread taker = Transcript.spawn(() -> Transcript.say("taken", simple.take()));
        new SimpleDistributedQueue(other, "/simple").offer(Transcript.bytes("3"));
        Transcript.join(taker);
        Transcript.say(simple.poll(50, TimeUnit.MILLISECONDS));
        for (String path : List.of(
                "/queue", "/queue-lock", "/safe", "/ids", "/priorities", "/delays", "/simple")) {
            client.delete().quietly().deletingChildrenIfNeeded().forPath(path);
        }
    }

    private void blockingConsumer() throws Exception {
        BlockingQueueConsumer<String> consumer = new BlockingQueueConsumer<>((from, state) -> {});
        try (DistributedQueue<String> queue =
                QueueBuilder.builder(client, consumer, SERIALIZER, "/blocking").buildQueue()) {
            queue.start();
            queue.put("one");
            Transcript.say("blocking", consumer.take(30, TimeUnit.SECONDS), consumer.size());
        }
        client.delete().deletingChildrenIfNeeded().forPath("/blocking");
    }

    /** A second queue is made when the first is too long. */
    private void sharder() throws Exception {
        client.create().forPath("/shards");
        QueueSharderPolicies policies =
                QueueSharderPolicies.builder().newQueueThreshold(2).maxQueues(2).thresholdCheckMs(50).build();
        try (QueueSharder<String, DistributedQueue<String>> sharder = new QueueSharder<>(client,
                (from, path) -> QueueBuilder.builder(from, null, SERIALIZER, path).buildQueue(),
                "/shards", "/shards-leader", policies)) {
            sharder.start();
            Transcript.say("shards", sharder.getShardQty());
            for (int count = 0; count < 4; count++) {
                sharder.getQueue().put("item");
            }
            Transcript.until(() -> sharder.getShardQty() == 2
                    && client.getChildren().forPath("/shards").size() == 2);
            Transcript.say("shards", sharder.getQueuePaths().size(), client.getChildren().forPath("/shards"));
        }
        client.delete().deletingChildrenIfNeeded().forPath("/shards");
    }

    private static void take(BlockingQueue<String> taken, int count) throws Exception {
        List<String> items = new ArrayList<>();
        while (items.size() < count) {
            items.add(taken.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
        }
        Transcript.say("taken", items);
    }

    /** Of a queue whose items go to {@code taken}; a producer only when there is none. */
    private QueueBuilder<String> builder(String path, BlockingQueue<String> taken) {
        QueueConsumer<String> consumer = taken == null ? null : new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                taken.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework from, ConnectionState state) {}
        };
        return QueueBuilder.builder(client, consumer, SERIALIZER, path);
    }
}
