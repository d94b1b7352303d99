import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;

/** Participants of which one leads, leaves by itself, and comes again. */
final class Leaders implements Workload {
    /** A participant that leads, and since when it knows. */
    private record Term(int participant, long began) {}

    private final Sessions sessions;

    Leaders(Options options) throws InterruptedException {
        sessions = new Sessions(options, options.size);
    }

    @Override
    public Round prepare(String path, int operations) throws Exception {
        return new Terms(path, operations);
    }

    @Override
    public void close() {
        sessions.close();
    }

    private final class Terms implements Round {
        private final String path;
        private final int operations;
        private final LeaderLatch[] latches = new LeaderLatch[sessions.count()];
        private final BlockingQueue<Term> terms = new LinkedBlockingQueue<>();
        private final Inside leading = new Inside();
        private int over;
        private Term term;

        Terms(String path, int operations) throws Exception {
            this.path = path;
            this.operations = operations;
            for (int participant = 0; participant < latches.length; participant++) {
                takePart(participant);
            }
            term = next();
        }

        /** Returns when the participant is in line. */
        private void takePart(int participant) throws Exception {
            LeaderLatch latch = new LeaderLatch(sessions.get(participant), path);
            latches[participant] = latch;
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    long now = System.nanoTime();
                    leading.enter();
                    terms.add(new Term(participant, now));
                }

                @Override
                public void notLeader() {}
            });
            latch.start();
            // A latch says that it leads, and nothing else: it has to be asked.
            while (latch.getOurPath() == null) {
                LockSupport.parkNanos(200_000);
            }
        }

        private Term next() throws InterruptedException {
            Term next = terms.poll(60, TimeUnit.SECONDS);
            if (next == null) {
                throw new IllegalStateException("nobody leads");
            }
            return next;
        }

        @Override
        public void run(Samples samples) throws Exception {
            for (; over < operations; over++) {
                leading.leave();
                long left = System.nanoTime();
                latches[term.participant].close();
                Term after = next();
                samples.add(after.began - left);
                takePart(term.participant);
                term = after;
            }
        }

        @Override
        public int operations() {
            return operations;
        }

        @Override
        public String check() {
            // The first has led since before.
            return "max_leaders=" + leading.most() + " terms=" + (leading.entered() - 1);
        }

        @Override
        public void close() throws Exception {
            for (LeaderLatch latch : latches) {
                latch.close();
            }
        }
    }
}
