import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/**
 * Apache Curator's CuratorCache of a tree, told on standard input what to do.
 *
 * <p>Arguments: connectString path. Commands, one a line, each answered with one line on standard output:
 *
 * <ul>
 *   <li>{@code load}: waits until the cache is initialized; answers "ok"
 *   <li>{@code dump}: answers "path=czxid/mzxid/data" of each node, sorted
 * </ul>
 *
 * <p>Ends with its standard input. Exit codes: 0 done, 1 failed, 2 wrong arguments.
 */
public final class CuratorTree {
    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("arguments: connectString path");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS);
                CuratorCache cache = CuratorCache.build(client, args[1])) {
            CountDownLatch initialized = new CountDownLatch(1);
            cache.listenable()
                    .addListener(CuratorCacheListener.builder()
                            .forInitialized(initialized::countDown)
                            .build());
            cache.start();
            CuratorClient.answerCommands(line -> run(cache, initialized, line));
        }
    }

    private static String run(CuratorCache cache, CountDownLatch initialized, String command) throws Exception {
        switch (command) {
            case "load":
                return initialized.await(60, TimeUnit.SECONDS) ? "ok" : "not initialized";
            case "dump":
                return cache.stream().map(CuratorTree::text).sorted().collect(Collectors.joining(" "));
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private static String text(ChildData node) {
        return node.getPath() + "=" + node.getStat().getCzxid() + "/" + node.getStat().getMzxid() + "/"
                + new String(node.getData(), StandardCharsets.UTF_8);
    }
}
