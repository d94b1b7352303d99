import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/** Latencies of operations: every k-th when there are more than the harness wants. Threads may share it. */
final class Samples {
    private static final int MOST = 10_000;

    private final int every;
    private final AtomicLongArray nanos;
    private final AtomicInteger seen = new AtomicInteger();

    Samples(int operations) {
        every = Math.max(1, (operations + MOST - 1) / MOST);
        nanos = new AtomicLongArray(MOST);
    }

    void add(long latency) {
        int index = seen.getAndIncrement();
        if (index % every == 0 && index / every < MOST) {
            nanos.setRelease(index / every, latency);
        }
    }

    /** As a list of JSON, in microseconds. */
    String json() {
        int kept = Math.min(MOST, (seen.get() + every - 1) / every);
        StringBuilder out = new StringBuilder("[");
        for (int index = 0; index < kept; index++) {
            out.append(index == 0 ? "" : ",");
            out.append(String.format(Locale.ROOT, "%.1f", nanos.get(index) / 1000.0));
        }
        return out.append(']').toString();
    }
}
