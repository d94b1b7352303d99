import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;

/** Curator's queue without a consumer of its own: calls that wait. */
abstract class SimpleQueues implements Workload {
    private final Sessions sessions;
    private final int payload;

    private SimpleQueues(Options options) throws InterruptedException {
        sessions = new Sessions(options, 1);
        payload = options.payload;
    }

    @Override
    public void close() {
        sessions.close();
    }

    SimpleDistributedQueue queue(String path) {
        return new SimpleDistributedQueue(sessions.first(), path);
    }

    void put(SimpleDistributedQueue queue, int index) throws Exception {
        if (!queue.offer(new Item(index).bytes(payload))) {
            throw new IllegalStateException("not put: " + index);
        }
    }

    static final class Put extends SimpleQueues {
        Put(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) {
            SimpleDistributedQueue queue = queue(path);
            return new Round() {
                private int items;

                @Override
                public void run(Samples samples) throws Exception {
                    for (; items < operations; items++) {
                        long called = System.nanoTime();
                        put(queue, items);
                        samples.add(System.nanoTime() - called);
                    }
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return "items=" + items;
                }
            };
        }
    }

    static final class Take extends SimpleQueues {
        Take(Options options) throws InterruptedException {
            super(options);
        }

        @Override
        public Round prepare(String path, int operations) throws Exception {
            SimpleDistributedQueue queue = queue(path);
            for (int index = 0; index < operations; index++) {
                put(queue, index);
            }
            return new Round() {
                private final Taken taken = new Taken(false, true);

                @Override
                public void run(Samples samples) throws Exception {
                    for (int turn = 0; turn < operations; turn++) {
                        long called = System.nanoTime();
                        byte[] bytes = queue.take();
                        samples.add(System.nanoTime() - called);
                        taken.add(Item.of(bytes));
                    }
                }

                @Override
                public int operations() {
                    return operations;
                }

                @Override
                public String check() {
                    return taken.check();
                }
            };
        }
    }
}
