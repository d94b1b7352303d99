import java.util.HashMap;
import java.util.Map;

/** What the harness asks of a process; see PROTOCOL.md. */
final class Options {
    final String connect;
    final String workload;
    final int size;
    final int operations;
    final int warmup;
    final String path;
    final int payload;
    final int sessionTimeoutMs;

    Options(String[] arguments) {
        Map<String, String> given = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            given.put(arguments[at], arguments[at + 1]);
        }
        connect = text(given, "--connect");
        workload = text(given, "--workload");
        size = number(given, "--size");
        operations = number(given, "--operations");
        warmup = number(given, "--warmup");
        path = text(given, "--path");
        payload = number(given, "--payload");
        sessionTimeoutMs = number(given, "--session-timeout");
    }

    private static String text(Map<String, String> given, String name) {
        String value = given.get(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return value;
    }

    private static int number(Map<String, String> given, String name) {
        return Integer.parseInt(text(given, name));
    }
}
