import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.zookeeper.data.Stat;

/**
 * A member of Apache Curator's DistributedDoubleBarrier, which proves what it promises without trusting it; or somebody who
 * waits at a DistributedBarrier and removes another one.
 *
 * <p>Before a member does something, and after it has, it creates a node LEDGER/ROUND-WHAT-LABEL. Whoever has entered counts
 * those who came, whoever has left counts those who began to leave. Rounds are apart: everybody waits until all have
 * entered before it leaves, and until all have left before it enters again. In odd rounds Java comes last, in even ones the
 * others do: whoever is last begins the round.
 *
 * <p>Arguments: "member" connectString barrierPath ledgerPath members rounds label; the ledger must exist. Or "gate"
 * connectString waitPath removePath: sets the second barrier, waits at the first one, and removes the second one. Prints
 * "DONE" at last. Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 violation, 4 not done in 60 s.
 */
public final class CuratorBarrierMember {
    private static final long PATIENCE_SECONDS = 60;

    private final CuratorFramework client;
    private final String barrierPath;
    private final String ledger;
    private final int members;
    private final String label;

    private CuratorBarrierMember(
            CuratorFramework client, String barrierPath, String ledger, int members, String label) {
        this.client = client;
        this.barrierPath = barrierPath;
        this.ledger = ledger;
        this.members = members;
        this.label = label;
    }

    public static void main(String[] args) throws Exception {
        boolean gate = args.length == 4 && args[0].equals("gate");
        if (!gate && !(args.length == 7 && args[0].equals("member"))) {
            System.err.println("arguments: member connectString barrier ledger members rounds label"
                    + " | gate connectString wait remove");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[1], CuratorClient.LONG_SESSION_MILLIS)) {
            if (gate) {
                DistributedBarrier ours = new DistributedBarrier(client, args[3]);
                ours.setBarrier();
                inTime(new DistributedBarrier(client, args[2]).waitOnBarrier(PATIENCE_SECONDS, TimeUnit.SECONDS), "wait");
                ours.removeBarrier();
            } else {
                int members = Integer.parseInt(args[4]);
                CuratorBarrierMember member = new CuratorBarrierMember(client, args[2], args[3], members, args[6]);
                for (int round = 0; round < Integer.parseInt(args[5]); round++) {
                    member.round(new DistributedDoubleBarrier(client, args[2], members), round);
                }
            }
        }
        System.out.println("DONE");
    }

    private void round(DistributedDoubleBarrier barrier, int round) throws Exception {
        write(round, "entering");
        if (round % 2 == 1) {
            awaitOthers();
        }
        inTime(barrier.enter(PATIENCE_SECONDS, TimeUnit.SECONDS), "enter of " + label);
        check(round, "entering");
        write(round, "entered");
        await(round, "entered");
        write(round, "leaving");
        inTime(barrier.leave(PATIENCE_SECONDS, TimeUnit.SECONDS), "leave of " + label);
        check(round, "leaving");
        write(round, "left");
        await(round, "left");
    }

    private void write(int round, String what) throws Exception {
        client.create().forPath(ledger + "/" + round + "-" + what + "-" + label, new byte[0]);
    }

    private long count(int round, String what) throws Exception {
        String prefix = round + "-" + what + "-";
        return client.getChildren().forPath(ledger).stream().filter(name -> name.startsWith(prefix)).count();
    }

    private void check(int round, String what) throws Exception {
        client.sync().forPath(ledger);
        long count = count(round, what);
        if (count != members) {
            System.out.println("VIOLATION " + label + " round " + round + ": " + count + " " + what);
            System.exit(3);
        }
    }

    private void await(int round, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (count(round, what) < members) {
            inTime(System.nanoTime() < deadline, what);
            Thread.sleep(5);
        }
    }

    /** Until the half that is not Java's is at the barrier. */
    private void awaitOthers() throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        Stat stat = client.checkExists().forPath(barrierPath);
        while (stat == null || stat.getNumChildren() < members / 2) {
            inTime(System.nanoTime() < deadline, "others");
            Thread.sleep(5);
            stat = client.checkExists().forPath(barrierPath);
        }
    }

    private static void inTime(boolean done, String what) {
        if (!done) {
            System.out.println("TIMEOUT " + what);
            System.exit(4);
        }
    }
}
