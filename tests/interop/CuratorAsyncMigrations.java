import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.x.async.AsyncCuratorFramework;
import org.apache.curator.x.async.migrations.Migration;
import org.apache.curator.x.async.migrations.MigrationException;
import org.apache.curator.x.async.migrations.MigrationManager;
import org.apache.curator.x.async.migrations.MigrationSet;

/** Apache Curator's {@code MigrationManager}, with the arguments and commands of {@link CuratorMigrations}. */
public final class CuratorAsyncMigrations {
    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("arguments: connectString");
            System.exit(2);
        }
        ExecutorService executor = Executors.newCachedThreadPool();
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            MigrationManager manager = new MigrationManager(
                    AsyncCuratorFramework.wrap(client),
                    MigrationSets.LOCKS,
                    MigrationSets.META,
                    executor,
                    Duration.ofMillis(MigrationSets.LOCK_MILLIS));
            CuratorClient.answerCommands(line -> {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[1]);
                return migrate(manager, MigrationSets.first(client, count, words[0].equals("altered")));
            });
        } finally {
            executor.shutdown();
        }
    }

    private static String migrate(MigrationManager manager, List<List<CuratorOp>> set) throws Exception {
        List<Migration> migrations = new ArrayList<>();
        for (List<CuratorOp> operations : set) {
            migrations.add(() -> operations);
        }
        try {
            manager.migrate(MigrationSet.build(MigrationSets.ID, migrations))
                    .toCompletableFuture()
                    .get();
            return "ok";
        } catch (ExecutionException failed) {
            for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
                if (cause instanceof MigrationException) {
                    return cause.getMessage().startsWith("More metadata") ? "more" : "mismatch";
                }
            }
            throw failed;
        }
    }
}
