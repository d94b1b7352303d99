import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueuePutListener;
import org.apache.curator.framework.state.ConnectionState;

/** Curator's queues with a consumer: plain, by priority, and with a lock for each item. */
abstract class Queues implements Workload {
    enum Kind {
        PLAIN("queue"),
        PRIORITY("queue-priority"),
        LOCKING("queue-locking");

        /** Of the names of its workloads. */
        final String prefix;

        Kind(String prefix) {
            this.prefix = prefix;
        }
    }

    /** A queue that may have priorities. */
    private record Queue(QueueBase<Item> base) {
        void put(Item item) throws Exception {
            if (base instanceof DistributedPriorityQueue<Item> queue) {
                queue.put(item, item.priority());
            } else {
                ((DistributedQueue<Item>) base).put(item);
            }
        }

        void flush() throws InterruptedException {
            if (!base.flushPuts(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("items that were put are not confirmed");
            }
        }
    }

    private final Sessions sessions;
    private final int payload;
    final Kind kind;

    private Queues(Options options, Kind kind) throws InterruptedException {
        sessions = new Sessions(options, 1);
        payload = options.payload;
        this.kind = kind;
    }

    @Override
    public void close() {
        sessions.close();
    }

    QueueBuilder<Item> builder(String path, QueueConsumer<Item> consumer) {
        QueueBuilder<Item> builder =
                QueueBuilder.builder(sessions.first(), consumer, Item.serializer(payload), path + "/items");
        return kind == Kind.LOCKING ? builder.lockPath(path + "/locks") : builder;
    }

    Queue build(QueueBuilder<Item> builder) {
        return new Queue(kind == Kind.PRIORITY ? builder.buildPriorityQueue(0) : builder.buildQueue());
    }

    /** One producer. A single put at a time is a call that waits; several are made in the background. */
    static final class Put extends Queues {
        private final int inFlight;

        Put(Options options, Kind kind) throws InterruptedException {
            super(options, kind);
            inFlight = options.size;
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            boolean background = inFlight > 1;
            Queue queue = build(builder(path, null).putInBackground(background));
            queue.base.start();
            return new Round() {
                private final CountDownLatch confirmed = new CountDownLatch(operations);

                @Override
                public void run(Samples samples) throws Exception {
                    Semaphore free = new Semaphore(inFlight);
                    queue.base.getPutListenerContainer().addListener(new QueuePutListener<>() {
                        @Override
                        public void putCompleted(Item item) {
                            samples.add(System.nanoTime() - item.sent);
                            confirmed.countDown();
                            free.release();
                        }

                        @Override
                        public void putMultiCompleted(MultiItem<Item> items) {}
                    });
                    for (int index = 0; index < operations; index++) {
                        free.acquire();
                        Item item = new Item(index);
                        item.sent = System.nanoTime();
                        queue.put(item);
                    }
                    queue.flush();
                    // The listener hears of the last a moment after it was counted.
                    confirmed.await(60, TimeUnit.SECONDS);
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return "items=" + (operations - confirmed.getCount());
                }

                @Override
                public void close() throws Exception {
                    queue.base.close();
                }
            };
        }
    }

    /** One consumer, which begins when the queue has been filled. With several threads it does not keep the order. */
    static final class Take extends Queues {
        private final Executor executor;

        Take(Options options, Kind kind, int threads) throws InterruptedException {
            super(options, kind);
            if (threads == 1) {
                // In the thread of the queue, as without an executor.
                executor = Runnable::run;
            } else {
                ThreadPoolExecutor pool = (ThreadPoolExecutor) Executors.newFixedThreadPool(threads);
                pool.prestartAllCoreThreads();
                executor = pool;
            }
        }

        @Override
        public void close() {
            super.close();
            if (executor instanceof ExecutorService pool) {
                pool.shutdownNow();
            }
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            Queue filling = build(builder(path, null));
            filling.base.start();
            for (int index = 0; index < operations; index++) {
                filling.put(new Item(index));
            }
            filling.flush();
            filling.base.close();
            return new Consumption(path, operations);
        }

        private final class Consumption implements Round, QueueConsumer<Item> {
            private final int operations;
            private final Taken taken = new Taken(kind == Kind.PRIORITY, !(executor instanceof ExecutorService));
            private final CountDownLatch finished = new CountDownLatch(1);
            private final Queue queue;
            private Samples samples;
            private long before;

            Consumption(String path, int operations) {
                this.operations = operations;
                queue = build(builder(path, this).executor(task -> executor.execute(() -> {
                    // When the task of the last item has returned, the item is gone. Some tasks find that theirs has
                    // gone before.
                    task.run();
                    if (taken.items() == operations) {
                        finished.countDown();
                    }
                })));
            }

            @Override
            public void run(Samples into) throws Exception {
                samples = into;
                queue.base.start();
                finished.await();
            }

            @Override
            public synchronized void consumeMessage(Item item) {
                long now = System.nanoTime();
                if (before != 0) {
                    samples.add(now - before);
                }
                before = now;
                taken.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return taken.check();
            }

            @Override
            public void close() throws Exception {
                queue.base.close();
            }
        }
    }
}
