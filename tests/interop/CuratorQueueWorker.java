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
 * Puts items into queues of Apache Curator, and takes them, as it is told on standard input.
 *
 * <p>Argument: connectString. Commands: put|take|share kind path lockPath count; the kind is simple, plain, priority, delay or id,
 * the lock path "-" for none. A take takes so many items; a share takes all that come, with others, until there is a node
 * "path-end" and the queue is empty. A put puts the items 0, 1 and so on, the last two of a plain queue as one; their priorities
 * and their times fall, all times have passed, and their ids are "id" and the item. The answer is the items that were taken,
 * each after a space.
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

    /** A command, and the items that it has taken. */
    private record Task(String verb, String kind, String path, String lockPath, int count, BlockingQueue<String> taken) {
        static Task of(String line) {
            String[] words = line.split(" ");
            return new Task(words[0], words[1], words[2], words[3], Integer.parseInt(words[4]), new LinkedBlockingQueue<>());
        }

        boolean puts() {
            return verb.equals("put");
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorClient.answerCommands(line -> run(args[0], Task.of(line)));
    }

    /**
     * Runs a command in a session of its own: close() of a queue interrupts the delete of a lock node, which then stays as
     * long as the session, and nobody can take an item with the same name.
     */
    private static String run(String connectString, Task task) throws Exception {
        try (CuratorFramework client = CuratorClient.start(connectString, CuratorClient.LONG_SESSION_MILLIS)) {
            return run(client, task);
        }
    }

    private static String run(CuratorFramework client, Task task) throws Exception {
        QueueConsumer<String> consumer = task.puts() ? null : new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                task.taken.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework from, ConnectionState state) {}
        };
        QueueBuilder<String> builder = QueueBuilder.builder(client, consumer, SERIALIZER, task.path);
        if (!task.lockPath.equals("-")) {
            builder = builder.lockPath(task.lockPath);
        }
        int puts = task.puts() ? task.count : 0;
        switch (task.kind) {
            case "simple" -> {
                return simple(client, task);
            }
            case "plain" -> {
                try (DistributedQueue<String> queue = builder.buildQueue()) {
                    queue.start();
                    for (int item = 0; item < puts - 2; item++) {
                        queue.put(Integer.toString(item));
                    }
                    if (puts > 0) {
                        queue.flushPuts(30, TimeUnit.SECONDS);
                        int[] next = {puts - 2};
                        MultiItem<String> last = () -> next[0] < puts ? Integer.toString(next[0]++) : null;
                        queue.putMulti(last);
                    }
                    return finish(client, task, queue.flushPuts(30, TimeUnit.SECONDS));
                }
            }
            case "priority" -> {
                try (DistributedPriorityQueue<String> queue = builder.buildPriorityQueue(1)) {
                    queue.start();
                    for (int item = 0; item < puts; item++) {
                        queue.put(Integer.toString(item), puts / 2 - item);
                    }
                    return finish(client, task, queue.flushPuts(30, TimeUnit.SECONDS));
                }
            }
            case "delay" -> {
                try (DistributedDelayQueue<String> queue = builder.buildDelayQueue()) {
                    queue.start();
                    for (int item = 0; item < puts; item++) {
                        queue.put(Integer.toString(item), System.currentTimeMillis() - 100_000L - 1000L * item);
                    }
                    return finish(client, task, queue.flushPuts(30, TimeUnit.SECONDS));
                }
            }
            default -> {
                try (DistributedIdQueue<String> queue = builder.buildIdQueue()) {
                    queue.start();
                    for (int item = 0; item < puts; item++) {
                        queue.put(Integer.toString(item), "id" + item);
                    }
                    return finish(client, task, queue.flushPuts(30, TimeUnit.SECONDS));
                }
            }
        }
    }

    private static String simple(CuratorFramework client, Task task) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, task.path);
        StringBuilder answer = new StringBuilder();
        for (int item = 0; item < task.count; item++) {
            if (task.puts()) {
                queue.offer(SERIALIZER.serialize(Integer.toString(item)));
            } else {
                answer.append(' ').append(SERIALIZER.deserialize(queue.take()));
            }
        }
        return answer.toString();
    }

    private static String finish(CuratorFramework client, Task task, boolean flushed) throws Exception {
        if (!flushed) {
            throw new IllegalStateException("puts are not answered");
        }
        StringBuilder answer = new StringBuilder();
        for (int item = 0; task.verb.equals("take") && item < task.count; item++) {
            answer.append(' ').append(task.taken.poll(60, TimeUnit.SECONDS));
        }
        while (task.verb.equals("share") && client.checkExists().forPath(task.path + "-end") == null) {
            Thread.sleep(20);
        }
        // With a lock path the last one is deleted after it was consumed.
        while (!task.puts() && !client.getChildren().forPath(task.path).isEmpty()) {
            Thread.sleep(20);
        }
        task.taken.forEach(item -> answer.append(' ').append(item));
        return answer.toString();
    }
}
