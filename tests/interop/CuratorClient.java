import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Client and command loop shared by the programs beside this class. */
final class CuratorClient {
    /** Session timeout of programs that run to their end. */
    static final int LONG_SESSION_MILLIS = 10_000;
    /** Session timeout of programs that a test kills: others take over soon. */
    static final int SHORT_SESSION_MILLIS = 4_000;

    interface Command {
        /** Returns the answer to a line, without a line break. */
        String answer(String line) throws Exception;
    }

    private CuratorClient() {}

    /** Returns a started client. It may not be connected yet. */
    static CuratorFramework start(String connectString, int sessionTimeoutMillis) {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(sessionTimeoutMillis)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(50, 8, 1000))
                .build();
        client.start();
        return client;
    }

    /** Answers each line of standard input with one line of standard output, until the input ends. */
    static void answerCommands(Command command) throws Exception {
        Scanner input = new Scanner(System.in, StandardCharsets.UTF_8);
        while (input.hasNextLine()) {
            System.out.println(command.answer(input.nextLine()));
            System.out.flush();
        }
    }
}
