import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/**
 * Members who enter and leave together, again and again.
 *
 * <p>Curator 5.4 needs help for that. A member that was told of "ready" before it began to wait counts the members
 * once more, and waits for ever if one has left by then: so nobody leaves before all have entered. And a late event of
 * one round wakes a member that waits in the next: so each round has objects of its own, at the same path.
 */
final class DoubleBarriers implements Workload {
    private final Contenders members;

    DoubleBarriers(Options options) throws InterruptedException {
        members = new Contenders(options);
    }

    @Override
    public void close() {
        members.close();
    }

    @Override
    public Round prepare(String path, int operations) {
        return new Round() {
            private final AtomicInteger early = new AtomicInteger();
            private final AtomicInteger called = new AtomicInteger();
            private final AtomicInteger left = new AtomicInteger();
            private volatile long began;

            @Override
            public void run(Samples samples) throws Exception {
                int all = members.count();
                CyclicBarrier beginning = new CyclicBarrier(all, () -> began = System.nanoTime());
                CyclicBarrier entered = new CyclicBarrier(all);
                members.run((number, client) -> {
                    for (int round = 1; round <= operations; round++) {
                        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, all);
                        beginning.await();
                        called.incrementAndGet();
                        barrier.enter();
                        if (called.get() < round * all) {
                            early.incrementAndGet();
                        }
                        entered.await();
                        barrier.leave();
                        if (left.incrementAndGet() == round * all) {
                            samples.add(System.nanoTime() - began);
                        }
                    }
                });
            }

            @Override
            public int operations() {
                return operations;
            }

            @Override
            public String check() {
                return "rounds=" + left.get() / members.count() + " early=" + early;
            }
        };
    }
}
