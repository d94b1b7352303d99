import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.ZooKeeperMain;

/**
 * Apache ZooKeeper's command line client, zkCli.sh, with the lines of a script as its input.
 *
 * <p>Arguments: connectString script. Prints each line of the script after "> ", what the client says to it, and the
 * watch events that it has led to; times and session ids are left out. Empty lines and lines that begin with "#" are
 * passed over.
 */
public final class ZooKeeperShell {
    /** Shows the handle, which the client keeps for subclasses. */
    private static final class Shell extends ZooKeeperMain {
        Shell(String connectString) throws IOException, InterruptedException {
            super(new String[] {"-server", connectString, "-timeout", "10000"});
        }

        ZooKeeper handle() {
            return zk;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream transcript = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        Shell shell = new Shell(args[0]);
        Transcript.until(() -> shell.handle().getState().isConnected());
        Transcript.settled(shell.handle());
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            said.reset();
            transcript.println("> " + line);
            shell.executeLine(line);
            if (!shell.handle().getState().isAlive()) {
                shell.executeLine("connect " + args[0]);
            }
            Transcript.until(() -> shell.handle().getState().isConnected());
            Transcript.settled(shell.handle());
            transcript.print(comparable(said.toString(StandardCharsets.UTF_8)));
        }
        transcript.println("DONE");
        System.exit(0);
    }

    /** Without times and session ids, and the events, which another thread prints, after the rest. */
    private static String comparable(String text) {
        StringBuilder answer = new StringBuilder();
        StringBuilder events = new StringBuilder();
        for (String line : text.split("\n")) {
            if (line.startsWith("WatchedEvent")) {
                events.append(line).append('\n');
            } else if (!line.isBlank() && !line.startsWith("WATCHER::")) {
                answer.append(line.replaceAll("^([cm])time = .*$", "$1time = <time>")
                        .replaceAll("0x1[0-9a-f]{14,15}", "<session>")
                        .replaceAll("Connecting to .*", "Connecting to <server>")).append('\n');
            }
        }
        return answer.append(events).toString();
    }
}
