import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;

/** The migrations of {@code curator_migrations.rs}. */
final class MigrationSets {
    static final String ID = "orders";
    static final String LOCKS = "/migrations/locks";
    static final String META = "/migrations/meta";
    static final long LOCK_MILLIS = TimeUnit.SECONDS.toMillis(60);

    private MigrationSets() {}

    /** Returns the first {@code count} migrations. The last one is another one if {@code altered}. */
    static List<List<CuratorOp>> first(CuratorFramework client, int count, boolean altered) throws Exception {
        List<List<CuratorOp>> all = new ArrayList<>();
        all.add(List.of(
                client.transactionOp().create().forPath("/app", new byte[0]),
                client.transactionOp().create().forPath("/app/a", bytes("hello"))));
        all.add(List.of(
                client.transactionOp().setData().forPath("/app", new byte[] {(byte) 0xc3, 5}),
                client.transactionOp().check().withVersion(1).forPath("/app"),
                client.transactionOp().create().withMode(CreateMode.CONTAINER).forPath("/app/c", bytes("x"))));
        all.add(List.of(
                client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                        .forPath("/app/s-", bytes("x")),
                client.transactionOp().delete().forPath("/app/a")));
        all.add(List.of(
                client.transactionOp()
                        .create()
                        .withACL(ZooDefs.Ids.READ_ACL_UNSAFE)
                        .forPath("/app/odd,name}%", bytes("\u00e4")),
                client.transactionOp().delete().withVersion(0).forPath("/app/c")));
        List<List<CuratorOp>> chosen = new ArrayList<>(all.subList(0, count));
        if (altered) {
            chosen.set(count - 1, List.of(client.transactionOp().setData().forPath("/app", bytes("altered"))));
        }
        return chosen;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
