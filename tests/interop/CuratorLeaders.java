import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.zookeeper.CreateMode;

/**
 * Takes part in Apache Curator's elections, and proves what they promise without trusting them.
 *
 * <p>Whoever leads creates an ephemeral node below BASE/witness/KIND, named after its label, and then lists them: of two
 * leaders, the later one sees the earlier one.
 *
 * <p>Arguments: "contend" connectString base rounds label: a latch and a selector, one thread each. Or "meet"
 * connectString base: joins each election behind one other member, says whom it sees, leads when that one leaves, and
 * leaves when a member has come again. Prints "HELD kind" for every leadership, and at last "DONE". Exit codes: 0 done, 1
 * failed, 2 wrong arguments, 3 violation.
 */
public final class CuratorLeaders {
    private final CuratorFramework client;
    private final String base;
    private final String label;
    private final int rounds;

    private CuratorLeaders(CuratorFramework client, String base, int rounds, String label) {
        this.client = client;
        this.base = base;
        this.rounds = rounds;
        this.label = label;
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 3) {
            System.err.println("arguments: contend connectString base rounds label | meet connectString base");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[1], CuratorClient.SHORT_SESSION_MILLIS)) {
            if (args[0].equals("contend")) {
                new CuratorLeaders(client, args[2], Integer.parseInt(args[3]), args[4]).contend();
            } else {
                CuratorLeaders leaders = new CuratorLeaders(client, args[2], 1, "java");
                leaders.meetAtLatch();
                leaders.meetAtSelector();
            }
        }
        System.out.println("DONE");
        // The threads of a selector are not daemons.
        System.exit(0);
    }

    private interface Body {
        void run() throws Exception;
    }

    private void contend() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        for (Body body : new Body[] {this::latches, this::selector}) {
            all.add(threads.submit(() -> {
                body.run();
                return null;
            }));
        }
        for (Future<?> one : all) {
            one.get();
        }
        threads.shutdown();
    }

    private void latches() throws Exception {
        for (int round = 0; round < rounds; round++) {
            try (LeaderLatch latch = new LeaderLatch(client, base + "/latch", label)) {
                latch.start();
                if (!latch.await(60, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("never led");
                }
                lead("latch");
            }
        }
    }

    private void selector() throws Exception {
        CountDownLatch turns = new CountDownLatch(rounds);
        Exception[] failed = new Exception[1];
        LeaderSelector selector = selector(() -> {
            try {
                if (turns.getCount() > 0) {
                    lead("selector");
                }
            } catch (Exception failure) {
                failed[0] = failure;
            }
            turns.countDown();
        });
        selector.autoRequeue();
        selector.start();
        turns.await();
        selector.close();
        if (failed[0] != null) {
            throw failed[0];
        }
    }

    private LeaderSelector selector(Body body) {
        LeaderSelector selector = new LeaderSelector(client, base + "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                body.run();
            }
        });
        selector.setId(label);
        return selector;
    }

    private void lead(String kind) throws Exception {
        String place = base + "/witness/" + kind;
        client.create().withMode(CreateMode.EPHEMERAL).forPath(place + "/" + label);
        List<String> inside = client.getChildren().forPath(place);
        if (inside.size() > 1) {
            System.out.println("VIOLATION " + kind + " " + label + " among " + inside);
            System.exit(3);
        }
        synchronized (System.out) {
            System.out.println("HELD " + kind);
        }
        client.delete().guaranteed().forPath(place + "/" + label);
    }

    private interface Members {
        Collection<Participant> get() throws Exception;
    }

    /** Waits until there are two, and says who. */
    private static void meet(Members members) throws Exception {
        Collection<Participant> two = members.get();
        while (two.size() != 2) {
            Thread.sleep(20);
            two = members.get();
        }
        System.out.println("SEES " + two.stream()
                .map(member -> member.getId() + (member.isLeader() ? " (leader)" : ""))
                .collect(Collectors.joining(", ")));
    }

    private void meetAtLatch() throws Exception {
        try (LeaderLatch latch = new LeaderLatch(client, base + "/latch", label)) {
            latch.start();
            meet(latch::getParticipants);
            if (!latch.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("never led");
            }
            System.out.println("HELD latch");
            meet(latch::getParticipants);
        }
    }

    private void meetAtSelector() throws Exception {
        LeaderSelector[] selector = new LeaderSelector[1];
        CountDownLatch done = new CountDownLatch(1);
        selector[0] = selector(() -> {
            System.out.println("HELD selector");
            meet(selector[0]::getParticipants);
            done.countDown();
        });
        selector[0].start();
        meet(selector[0]::getParticipants);
        done.await();
        selector[0].close();
    }
}
