import java.util.concurrent.atomic.AtomicInteger;

/** Counts who is inside, and how many have been at most. */
final class Inside {
    private final AtomicInteger now = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();
    private final AtomicInteger entered = new AtomicInteger();

    void enter() {
        most.accumulateAndGet(now.incrementAndGet(), Math::max);
        entered.incrementAndGet();
    }

    void leave() {
        now.decrementAndGet();
    }

    int now() {
        return now.get();
    }

    int most() {
        return most.get();
    }

    int entered() {
        return entered.get();
    }
}
