import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/**
 * Apache Curator's GroupMember, PersistentNode and PersistentTtlNode, told on standard input what to do.
 *
 * <p>Argument: connectString. Commands, one a line, each answered with one line on standard output:
 *
 * <ul>
 *   <li>{@code join GROUP ID DATA}: starts a GroupMember; answers "ok"
 *   <li>{@code members COUNT}: waits until the GroupMember sees so many; answers "id=data" of each, sorted
 *   <li>{@code leave}: closes the GroupMember; answers "ok"
 *   <li>{@code node MODE PROTECT PATH DATA}: starts a PersistentNode; answers its path
 *   <li>{@code close}: closes the PersistentNode; answers "ok"
 *   <li>{@code ttl PATH MILLIS DATA}: starts a PersistentTtlNode; answers "ok"
 *   <li>{@code forget}: closes the PersistentTtlNode, whose node stays; answers "ok"
 * </ul>
 *
 * <p>Ends with its standard input. Exit codes: 0 done, 1 failed, 2 wrong arguments.
 */
public final class CuratorNodes {
    private static GroupMember member;
    private static PersistentNode node;
    private static PersistentTtlNode lasting;

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("argument: connectString");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            CuratorClient.answerCommands(line -> run(client, line.split(" ")));
        }
    }

    private static String run(CuratorFramework client, String[] words) throws Exception {
        switch (words[0]) {
            case "join":
                member = new GroupMember(client, words[1], words[2], bytes(words[3]));
                member.start();
                return "ok";
            case "members":
                return members(Integer.parseInt(words[1]));
            case "leave":
                member.close();
                return "ok";
            case "node":
                CreateMode mode = CreateMode.valueOf(words[1]);
                node = new PersistentNode(client, mode, Boolean.parseBoolean(words[2]), words[3], bytes(words[4]));
                node.start();
                if (!node.waitForInitialCreate(30, TimeUnit.SECONDS)) {
                    return "not created";
                }
                return node.getActualPath();
            case "close":
                node.close();
                return "ok";
            case "ttl":
                lasting = new PersistentTtlNode(client, words[1], Long.parseLong(words[2]), bytes(words[3]));
                lasting.start();
                return lasting.waitForInitialCreate(30, TimeUnit.SECONDS) ? "ok" : "not created";
            case "forget":
                lasting.close();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Its cache is filled by another thread. */
    private static String members(int count) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            Map<String, byte[]> members = member.getCurrentMembers();
            if (members.size() == count || System.nanoTime() > end) {
                StringBuilder text = new StringBuilder();
                new TreeMap<>(members).forEach((id, data) -> text.append(id + "=" + text(data) + " "));
                return text.toString().trim();
            }
            Thread.sleep(20);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
