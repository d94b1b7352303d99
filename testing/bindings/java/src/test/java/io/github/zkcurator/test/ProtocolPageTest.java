package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The package has every name of the page about the protocol. Its path is the property `protocol.page`. */
class ProtocolPageTest {
    private static final Pattern CODE = Pattern.compile("`([^`]+)`");

    private static String page() throws IOException {
        return Files.readString(Paths.get(System.getProperty("protocol.page")));
    }

    private static Set<String> names(String text) {
        Set<String> names = new TreeSet<>();
        Matcher matcher = CODE.matcher(text);
        while (matcher.find()) {
            names.add(matcher.group(1));
        }
        return names;
    }

    /** Returns the names in the first column of the table after a line. */
    private static Set<String> firstColumn(String page, String after) {
        String rest = page.substring(page.indexOf(after));
        rest = rest.substring(rest.indexOf("\n|--"));
        Set<String> names = new TreeSet<>();
        for (String line : rest.substring(1).split("\n")) {
            if (!line.startsWith("|")) {
                break;
            }
            names.addAll(names(line.split("\\|")[1]));
        }
        return names;
    }

    private static String sources() throws IOException {
        StringBuilder sources = new StringBuilder();
        try (Stream<Path> files = Files.list(Paths.get(System.getProperty("sources")))) {
            for (Path file : (Iterable<Path>) files::iterator) {
                sources.append(Files.readString(file));
            }
        }
        return sources.toString();
    }

    @Test
    void everyCallIsMade() throws IOException {
        Set<String> calls = firstColumn(page(), "## Calls");
        assertTrue(calls.size() >= 30, calls.toString());
        String sources = sources();
        Set<String> missing = new TreeSet<>(calls);
        missing.removeIf(call -> sources.contains("call(\"" + call + "\""));
        assertEquals(Set.of(), missing);
        Matcher made = Pattern.compile("\\bcall\\(\"([a-z_]+)\"").matcher(sources);
        while (made.find()) {
            assertTrue(calls.contains(made.group(1)), made.group(1));
        }
    }

    @Test
    void everyErrorCodeIsKnown() throws IOException {
        Set<String> codes = new TreeSet<>();
        for (ErrorCode code : ErrorCode.values()) {
            codes.add(code.protocolName());
        }
        codes.remove("unknown");
        assertEquals(codes, firstColumn(page(), "| Error code |"));
    }

    @Test
    void everyOperationIsKnown() throws IOException {
        Set<String> operations = new TreeSet<>();
        for (Operation operation : Operation.values()) {
            operations.add(operation.protocolName());
        }
        String page = page();
        String row = page.substring(page.indexOf("\n| `operation` |") + 1);
        row = row.substring(row.indexOf("list of names"), row.indexOf('\n'));
        assertEquals(operations, names(row));
    }

    @Test
    void everyConditionCanBeWaitedFor() throws IOException {
        Set<String> conditions = new TreeSet<>();
        for (String text : firstColumn(page(), "## Conditions")) {
            conditions.add(text.replaceAll("\\{\"([a-z_]+)\".*", "$1"));
        }
        Set<String> known = new TreeSet<>();
        for (Condition condition : new Condition[] {
            Condition.exists("/"), Condition.absent("/"), Condition.children("/", 1), Condition.watches("/", 1),
            Condition.sessions(1), Condition.sessionEnded(1), Condition.sessionConnected(1),
            Condition.sessionDisconnected(1), Condition.rule("a", 1), Condition.leader(true)
        }) {
            known.add(condition.parameters().keySet().iterator().next());
        }
        assertEquals(known, conditions);
    }

    @Test
    void everyParameterOfARuleIsThere() throws IOException {
        RuleSpec all = RuleSpec.loseReply().named("a").on(Operation.CREATE).path("/").under("/").session(1)
                .member(0).after(0).times(1);
        assertEquals(new TreeSet<>(all.parameters().keySet()), firstColumn(page(), "| Parameter |"));
        Set<String> verdicts = firstColumn(page(), "| Verdict |");
        assertEquals(
                Set.of("\"lose_reply\"", "\"lose_request\"", "\"disconnect\"", "{\"delay_ms\": 200}",
                        "{\"refuse\": \"no_auth\"}"),
                verdicts);
    }
}
