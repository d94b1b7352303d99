import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/**
 * Puts items into a queue of Apache Curator, or takes them.
 *
 * <p>Arguments: connectString put|take|share kind path lockPath count; the kind is simple, plain, priority, delay or id, the lock path
 * "-" for none. It takes so many items, or shares all that come with others until there is a node "path-end" and the queue is
 * empty. It puts the items 0, 1 and so on, the last two of a plain queue as one; their priorities are falling, their
 * times too and all over, their ids "id" and the item. Prints "TAKEN item" for every item that it takes, and at last "DONE".
 */
public final class CuratorQueueWorker {
    private static final QueueSerializer<String> SERIALIZER = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    public static void main(String[] args) throws Exception {
        boolean puts = args[1].equals("put");
        int count = Integer.parseInt(args[5]);
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = puts ? null : new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                taken.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework from, ConnectionState state) {}
        };
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            QueueBuilder<String> builder = QueueBuilder.builder(client, consumer, SERIALIZER, args[3]);
            if (!args[4].equals("-")) {
                builder = builder.lockPath(args[4]);
            }
            switch (args[2]) {
                case "simple" -> simple(client, args[3], puts, count);
                case "plain" -> {
                    try (DistributedQueue<String> queue = builder.buildQueue()) {
                        queue.start();
                        for (int item = 0; puts && item < count - 2; item++) {
                            queue.put(Integer.toString(item));
                        }
                        if (puts) {
                            queue.flushPuts(30, TimeUnit.SECONDS);
                            int[] next = {count - 2};
                            MultiItem<String> last = () -> next[0] < count ? Integer.toString(next[0]++) : null;
                            queue.putMulti(last);
                        }
                        finish(client, args, queue.flushPuts(30, TimeUnit.SECONDS), taken);
                    }
                }
                case "priority" -> {
                    try (DistributedPriorityQueue<String> queue = builder.buildPriorityQueue(1)) {
                        queue.start();
                        for (int item = 0; puts && item < count; item++) {
                            queue.put(Integer.toString(item), count / 2 - item);
                        }
                        finish(client, args, queue.flushPuts(30, TimeUnit.SECONDS), taken);
                    }
                }
                case "delay" -> {
                    try (DistributedDelayQueue<String> queue = builder.buildDelayQueue()) {
                        queue.start();
                        for (int item = 0; puts && item < count; item++) {
                            queue.put(Integer.toString(item), System.currentTimeMillis() - 100_000L - 1000L * item);
                        }
                        finish(client, args, queue.flushPuts(30, TimeUnit.SECONDS), taken);
                    }
                }
                default -> {
                    try (DistributedIdQueue<String> queue = builder.buildIdQueue()) {
                        queue.start();
                        for (int item = 0; puts && item < count; item++) {
                            queue.put(Integer.toString(item), "id" + item);
                        }
                        finish(client, args, queue.flushPuts(30, TimeUnit.SECONDS), taken);
                    }
                }
            }
        }
        System.out.println("DONE");
    }

    private static void simple(CuratorFramework client, String path, boolean puts, int count) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
        for (int item = 0; item < count; item++) {
            if (puts) {
                queue.offer(SERIALIZER.serialize(Integer.toString(item)));
            } else {
                System.out.println("TAKEN " + SERIALIZER.deserialize(queue.take()));
            }
        }
    }

    private static void finish(
            CuratorFramework client, String[] args, boolean flushed, BlockingQueue<String> taken) throws Exception {
        if (!flushed) {
            throw new IllegalStateException("puts are not answered");
        }
        String path = args[3];
        for (int item = 0; args[1].equals("take") && item < Integer.parseInt(args[5]); item++) {
            System.out.println("TAKEN " + taken.poll(60, TimeUnit.SECONDS));
        }
        while (args[1].equals("share") && client.checkExists().forPath(path + "-end") == null) {
            Thread.sleep(20);
        }
        // With a lock path the last one is deleted after it was consumed.
        while (!args[1].equals("put") && !client.getChildren().forPath(path).isEmpty()) {
            Thread.sleep(20);
        }
        taken.forEach(item -> System.out.println("TAKEN " + item));
    }
}
