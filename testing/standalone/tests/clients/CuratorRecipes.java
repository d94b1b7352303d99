import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphore;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** The recipes of Apache Curator that hand something out: locks, leaders, barriers and counters. */
@SuppressWarnings("deprecation")
final class CuratorRecipes {
    private final CuratorFramework client;
    private final CuratorFramework other;

    CuratorRecipes(CuratorFramework client, CuratorFramework other) {
        this.client = client;
        this.other = other;
    }

    void run() throws Exception {
        mutex();
        readWriteLock();
        semaphores();
        multiLock();
        leaders();
        barriers();
        counters();
    }

    /** A node that is no container: it stays while it is empty, and goes on counting. */
    private void keep(String path) throws Exception {
        client.create().forPath(path);
    }

    private void drop(String... paths) throws Exception {
        for (String path : paths) {
            client.delete().deletingChildrenIfNeeded().forPath(path);
        }
    }

    private boolean children(String path, int count) throws Exception {
        return Transcript.children(client, path) == count;
    }

    private void mutex() throws Exception {
        Transcript.chapter("mutex");
        keep("/mutex");
        InterProcessMutex mutex = new InterProcessMutex(client, "/mutex");
        InterProcessMutex rival = new InterProcessMutex(other, "/mutex");
        mutex.acquire();
        Transcript.say("again", mutex.acquire(1, TimeUnit.SECONDS), mutex.isOwnedByCurrentThread());
        Transcript.say("rival", rival.acquire(50, TimeUnit.MILLISECONDS), rival.isAcquiredInThisProcess());
        List<Integer> turns = new CopyOnWriteArrayList<>();
        Thread[] waiters = new Thread[4];
        for (int number = 0; number < waiters.length; number++) {
            int turn = number;
            InterProcessMutex each = new InterProcessMutex(number % 2 == 0 ? client : other, "/mutex");
            waiters[number] = Transcript.spawn(() -> {
                each.acquire();
                turns.add(turn);
                each.release();
            });
            Transcript.until(() -> children("/mutex", turn + 2));
        }
        Transcript.tree(client, "/mutex");
        mutex.release();
        Transcript.say("still held", children("/mutex", 5));
        mutex.release();
        Transcript.join(waiters);
        Transcript.say("in turn", turns);
        Transcript.attempt("not held", () -> {
            mutex.release();
            return null;
        });
        CountDownLatch asked = new CountDownLatch(1);
        mutex.makeRevocable(revoked -> asked.countDown());
        mutex.acquire();
        Revoker.attemptRevoke(other, mutex.getParticipantNodes().iterator().next());
        Transcript.say("revoked", asked.await(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
        mutex.release();
        Transcript.say(client.checkExists().forPath("/mutex"));
        drop("/mutex");
        // Without a parent, the parent is a container.
        InterProcessMutex fleeting = new InterProcessMutex(client, "/fleeting/mutex");
        fleeting.acquire();
        fleeting.release();
        Transcript.until(() -> client.checkExists().forPath("/fleeting") == null);
    }

    private void readWriteLock() throws Exception {
        Transcript.chapter("read/write lock");
        keep("/rw");
        InterProcessReadWriteLock mine = new InterProcessReadWriteLock(client, "/rw", Transcript.bytes("mine"));
        InterProcessReadWriteLock theirs = new InterProcessReadWriteLock(other, "/rw");
        mine.readLock().acquire();
        theirs.readLock().acquire();
        Transcript.say("write", theirs.writeLock().acquire(50, TimeUnit.MILLISECONDS));
        Transcript.tree(client, "/rw");
        theirs.readLock().release();
        mine.readLock().release();
        mine.writeLock().acquire();
        Transcript.say("read", theirs.readLock().acquire(50, TimeUnit.MILLISECONDS));
        Transcript.say("read what I write", mine.readLock().acquire(1, TimeUnit.SECONDS));
        Transcript.tree(client, "/rw");
        mine.writeLock().release();
        Transcript.say("read", theirs.readLock().acquire(1, TimeUnit.SECONDS));
        List<String> order = new CopyOnWriteArrayList<>();
        Thread writer = Transcript.spawn(() -> {
            theirs.writeLock().acquire();
            order.add("writer");
            theirs.writeLock().release();
        });
        Transcript.until(() -> children("/rw", 3));
        Thread reader = Transcript.spawn(() -> {
            mine.readLock().acquire();
            order.add("reader");
            mine.readLock().release();
        });
        Transcript.until(() -> children("/rw", 4));
        mine.readLock().release();
        theirs.readLock().release();
        Transcript.join(writer, reader);
        Transcript.say(order, client.checkExists().forPath("/rw"));
        drop("/rw");
    }

    private void semaphores() throws Exception {
        Transcript.chapter("semaphores");
        keep("/semaphore");
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/semaphore", 3);
        semaphore.setNodeData(Transcript.bytes("permit"));
        InterProcessSemaphoreV2 rival = new InterProcessSemaphoreV2(other, "/semaphore", 3);
        Lease first = semaphore.acquire();
        List<Lease> two = new ArrayList<>(semaphore.acquire(2));
        Transcript.say("rival", rival.acquire(50, TimeUnit.MILLISECONDS), first.getData(), two.size());
        Transcript.say(semaphore.getParticipantNodes().size());
        Transcript.tree(client, "/semaphore/leases");
        Thread waiter = Transcript.spawn(() -> rival.returnLease(rival.acquire()));
        Transcript.until(() -> children("/semaphore/locks", 1) && children("/semaphore/leases", 4));
        first.close();
        Transcript.join(waiter);
        semaphore.returnAll(two);
        Transcript.until(() -> client.checkExists().forPath("/semaphore/leases") == null);
        drop("/semaphore");

        keep("/permits");
        try (SharedCount permits = new SharedCount(client, "/permits/count", 1)) {
            permits.start();
            InterProcessSemaphoreV2 counted = new InterProcessSemaphoreV2(client, "/permits/of", permits);
            Lease only = counted.acquire();
            Transcript.say("one", counted.acquire(50, TimeUnit.MILLISECONDS));
            permits.setCount(2);
            Lease second = counted.acquire(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
            Transcript.say("two", second != null);
            counted.returnLease(only);
            counted.returnLease(second);
        }
        drop("/permits");

        keep("/old-semaphore");
        InterProcessSemaphore old = new InterProcessSemaphore(client, "/old-semaphore", 1);
        Lease held = old.acquire();
        Transcript.say("old", old.acquire(50, TimeUnit.MILLISECONDS));
        Transcript.tree(client, "/old-semaphore");
        old.returnLease(held);
        drop("/old-semaphore");

        keep("/semaphore-mutex");
        InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, "/semaphore-mutex");
        mutex.acquire();
        Transcript.say("again", mutex.acquire(50, TimeUnit.MILLISECONDS), mutex.isAcquiredInThisProcess());
        Transcript.tree(client, "/semaphore-mutex/leases");
        Transcript.join(Transcript.spawn(mutex::release));
        Transcript.say("released by another thread", mutex.isAcquiredInThisProcess());
        drop("/semaphore-mutex");
    }

    private void multiLock() throws Exception {
        Transcript.chapter("multi lock");
        for (String path : List.of("/multi-a", "/multi-b")) {
            keep(path);
        }
        InterProcessLock both = new InterProcessMultiLock(client, List.of("/multi-a", "/multi-b"));
        InterProcessMutex one = new InterProcessMutex(other, "/multi-b");
        one.acquire();
        Transcript.say(both.acquire(50, TimeUnit.MILLISECONDS), client.getChildren().forPath("/multi-a"));
        one.release();
        Transcript.say(both.acquire(5, TimeUnit.SECONDS), both.isAcquiredInThisProcess());
        Transcript.tree(client, "/multi-a");
        Transcript.tree(client, "/multi-b");
        both.release();
        drop("/multi-a", "/multi-b");
    }

    private void leaders() throws Exception {
        Transcript.chapter("leader latch");
        keep("/latch");
        LeaderLatch first = new LeaderLatch(client, "/latch", "first");
        LeaderLatch second = new LeaderLatch(other, "/latch", "second", LeaderLatch.CloseMode.NOTIFY_LEADER);
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        second.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                told.add("leader");
            }

            @Override
            public void notLeader() {
                told.add("no leader");
            }
        });
        first.start();
        first.await();
        second.start();
        Transcript.until(() -> children("/latch", 2));
        Transcript.say(first.hasLeadership(), second.hasLeadership(), second.getLeader(),
                second.getParticipants().size());
        Transcript.tree(client, "/latch");
        first.close();
        second.await();
        Transcript.say(second.getLeader(), second.getParticipants().size(), first.getState());
        second.close();
        Transcript.say(told.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS),
                told.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
        Transcript.until(() -> children("/latch", 0));
        Transcript.say(client.checkExists().forPath("/latch"));
        drop("/latch");

        Transcript.chapter("leader selector");
        keep("/selector");
        BlockingQueue<String> terms = new LinkedBlockingQueue<>();
        CountDownLatch resign = new CountDownLatch(1);
        LeaderSelector leader = selector(client, "first", terms, resign);
        leader.start();
        Transcript.say(terms.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS), leader.hasLeadership());
        LeaderSelector follower = selector(other, "second", terms, new CountDownLatch(0));
        follower.start();
        Transcript.until(() -> children("/selector", 2));
        Transcript.say(leader.getParticipants().size(), follower.getLeader());
        Transcript.tree(client, "/selector");
        resign.countDown();
        Transcript.say(terms.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
        Transcript.until(() -> children("/selector", 0));
        Transcript.say("requeue", leader.requeue(), terms.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS));
        Transcript.until(() -> children("/selector", 0));
        leader.close();
        follower.close();
        CountDownLatch never = new CountDownLatch(1);
        LeaderSelector interrupted = selector(client, "third", terms, never);
        interrupted.start();
        terms.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS);
        interrupted.interruptLeadership();
        Transcript.until(() -> children("/selector", 0));
        interrupted.close();
        Transcript.say(client.checkExists().forPath("/selector"));
        drop("/selector");
    }

    private static LeaderSelector selector(
            CuratorFramework client, String id, BlockingQueue<String> terms, CountDownLatch resign) {
        LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws InterruptedException {
                terms.add(id);
                resign.await();
            }
        });
        selector.setId(id);
        return selector;
    }

    private void barriers() throws Exception {
        Transcript.chapter("barriers");
        DistributedBarrier barrier = new DistributedBarrier(client, "/barrier");
        DistributedBarrier theirs = new DistributedBarrier(other, "/barrier");
        Transcript.say("none", theirs.waitOnBarrier(1, TimeUnit.SECONDS));
        barrier.setBarrier();
        Transcript.say("set", theirs.waitOnBarrier(50, TimeUnit.MILLISECONDS));
        Thread waiter = Transcript.spawn(theirs::waitOnBarrier);
        barrier.removeBarrier();
        Transcript.join(waiter);

        keep("/double");
        List<String> order = new CopyOnWriteArrayList<>();
        Thread[] members = new Thread[3];
        for (int number = 0; number < members.length; number++) {
            DistributedDoubleBarrier each =
                    new DistributedDoubleBarrier(number == 1 ? other : client, "/double", members.length);
            int before = number;
            members[number] = Transcript.spawn(() -> {
                each.enter();
                order.add("in");
                Transcript.until(() -> Collections.frequency(order, "in") == members.length);
                each.leave();
                order.add("out");
            });
            if (before < members.length - 1) {
                Transcript.until(() -> children("/double", before + 1));
                Transcript.say(order);
            }
        }
        Transcript.join(members);
        Transcript.say(order, client.getChildren().forPath("/double"));
        DistributedDoubleBarrier lonely = new DistributedDoubleBarrier(client, "/double", 2);
        Transcript.say("alone", lonely.enter(50, TimeUnit.MILLISECONDS));
        drop("/double");
    }

    private void counters() throws Exception {
        Transcript.chapter("shared count and value");
        BlockingQueue<Integer> heard = new LinkedBlockingQueue<>();
        try (SharedCount count = new SharedCount(client, "/count", 7);
                SharedCount theirs = new SharedCount(other, "/count", 9);
                SharedValue value = new SharedValue(client, "/value", Transcript.bytes("seed"))) {
            theirs.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int now) {
                    heard.add(now);
                }

                @Override
                public void stateChanged(CuratorFramework from, ConnectionState state) {}
            });
            count.start();
            theirs.start();
            value.start();
            Transcript.say(count.getCount(), theirs.getCount());
            count.setCount(8);
            Transcript.say(heard.poll(Transcript.PATIENCE, TimeUnit.MILLISECONDS),
                    theirs.getVersionedValue().getVersion());
            Transcript.say(theirs.trySetCount(theirs.getVersionedValue(), 10));
            Transcript.until(() -> count.getCount() == 10);
            Transcript.say(value.getValue(), value.trySetValue(value.getVersionedValue(), Transcript.bytes("two")));
            value.setValue(Transcript.bytes("three"));
            Transcript.tree(client, "/count");
            Transcript.tree(client, "/value");
        }
        drop("/count", "/value");

        Transcript.chapter("atomic numbers");
        DistributedAtomicLong number = new DistributedAtomicLong(client, "/atomic/long", new RetryNTimes(10, 10));
        Transcript.say("initialize", number.initialize(40L), number.initialize(50L));
        say("increment", number.increment());
        say("add", number.add(10L));
        say("subtract", number.subtract(1L));
        say("decrement", number.decrement());
        say("compare and set", number.compareAndSet(49L, 100L));
        say("compare and set", number.compareAndSet(49L, 200L));
        say("try set", number.trySet(300L));
        number.forceSet(400L);
        say("get", number.get());
        DistributedAtomicInteger small = new DistributedAtomicInteger(client, "/atomic/int", new RetryNTimes(10, 10));
        say("integer", small.add(5));
        DistributedAtomicValue value = new DistributedAtomicValue(client, "/atomic/value", new RetryNTimes(10, 10));
        Transcript.say(value.trySet(Transcript.bytes("v")).succeeded(), value.get().postValue(),
                value.compareAndSet(Transcript.bytes("w"), Transcript.bytes("x")).succeeded());
        CachedAtomicLong cached = new CachedAtomicLong(number, 10);
        say("cached", cached.next());
        say("cached", cached.next());
        say("cached", new CachedAtomicInteger(small, 3).next());
        PromotedToLock promoted = PromotedToLock.builder().lockPath("/atomic/lock")
                .retryPolicy(new RetryNTimes(100, 10)).timeout(Transcript.PATIENCE, TimeUnit.MILLISECONDS).build();
        Thread[] adders = new Thread[3];
        for (int index = 0; index < adders.length; index++) {
            CuratorFramework who = index == 0 ? client : other;
            adders[index] = Transcript.spawn(() -> {
                DistributedAtomicLong total =
                        new DistributedAtomicLong(who, "/atomic/total", new RetryNTimes(1, 1), promoted);
                for (int count = 0; count < 20; count++) {
                    if (!total.increment().succeeded()) {
                        throw new IllegalStateException("not added");
                    }
                }
            });
        }
        Transcript.join(adders);
        for (String path : List.of("long", "int", "value", "total")) {
            Transcript.tree(client, "/atomic/" + path);
        }
        drop("/atomic");
    }

    private static void say(String label, AtomicValue<? extends Number> value) {
        Transcript.say(label, value.succeeded(), value.preValue(), value.postValue(),
                value.getStats().getOptimisticTries(), value.getStats().getPromotedLockTries());
    }
}
