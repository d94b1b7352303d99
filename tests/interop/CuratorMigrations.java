import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.imps.ExtractingCuratorOp;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * The steps of Apache Curator's {@code MigrationManager} with Curator's own lock, checksum and transactions: for machines
 * without {@code curator-x-async}, which Debian does not package. {@link CuratorAsyncMigrations} has the class itself.
 *
 * <p>Arguments: connectString. Commands, one a line, each answered with one line on standard output:
 *
 * <ul>
 *   <li>{@code migrate COUNT}: applies the first migrations; answers "ok", "more" if more are applied, or "mismatch"
 *   <li>{@code altered COUNT}: the same, and the last of them is another one
 * </ul>
 *
 * <p>Ends with its standard input. Exit codes: 0 done, 1 failed, 2 wrong arguments.
 */
public final class CuratorMigrations {
    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("arguments: connectString");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            CuratorClient.answerCommands(line -> {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[1]);
                return migrate(client, MigrationSets.first(client, count, words[0].equals("altered")));
            });
        }
    }

    private static String migrate(CuratorFramework client, List<List<CuratorOp>> set) throws Exception {
        InterProcessSemaphoreMutex lock =
                new InterProcessSemaphoreMutex(client, ZKPaths.makePath(MigrationSets.LOCKS, MigrationSets.ID));
        if (!lock.acquire(MigrationSets.LOCK_MILLIS, TimeUnit.MILLISECONDS)) {
            return "locked";
        }
        try {
            return inLock(client, set, ZKPaths.makePath(MigrationSets.META, MigrationSets.ID));
        } finally {
            lock.release();
        }
    }

    private static String inLock(CuratorFramework client, List<List<CuratorOp>> set, String meta) throws Exception {
        List<byte[]> found = new ArrayList<>();
        try {
            List<String> names = new ArrayList<>(client.getChildren().forPath(meta));
            Collections.sort(names);
            for (String name : names) {
                found.add(client.getData().forPath(ZKPaths.makePath(meta, name)));
            }
        } catch (KeeperException.NoNodeException nothing) {
            // Nothing was applied yet.
        }
        if (found.size() > set.size()) {
            return "more";
        }
        for (int index = 0; index < found.size(); index++) {
            if (!Arrays.equals(hash(set.get(index)), found.get(index))) {
                return "mismatch";
            }
        }
        List<CuratorOp> operations = new ArrayList<>();
        for (List<CuratorOp> migration : set.subList(found.size(), set.size())) {
            operations.addAll(migration);
            operations.add(client.transactionOp()
                    .create()
                    .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                    .forPath(ZKPaths.makePath(meta, "meta-"), hash(migration)));
        }
        if (!operations.isEmpty()) {
            client.createContainers(meta);
            client.transaction().forOperations(operations);
        }
        return "ok";
    }

    private static byte[] hash(List<CuratorOp> operations) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (CuratorOp operation : operations) {
            ((ExtractingCuratorOp) operation).addToDigest(digest);
        }
        return digest.digest();
    }
}
