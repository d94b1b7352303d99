import java.nio.charset.StandardCharsets;
import java.util.function.Function;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicNumber;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryNTimes;

/**
 * Apache Curator's counters and shared values, told on standard input what to do.
 *
 * <p>Arguments: connectString. Commands, one a line, each answered with one line on standard output:
 *
 * <ul>
 *   <li>{@code long|int get PATH}: answers the value
 *   <li>{@code long|int add PATH NUMBER}: answers "before after"
 *   <li>{@code long|int cas PATH EXPECTED NEW}: answers "true" or "false"
 *   <li>{@code long|int increment PATH TIMES}: answers "ok"
 *   <li>{@code ids next PATH TIMES}: of a CachedAtomicLong with blocks of 4; answers the numbers
 *   <li>{@code count|value get PATH}, {@code count|value set PATH NEW}: answers the value
 * </ul>
 *
 * <p>Ends with its standard input. Exit codes: 0 done, 1 failed, 2 wrong arguments.
 */
public final class CuratorCounters {
    private static final RetryPolicy RETRY = new RetryNTimes(1000, 1);
    private static final int BLOCK = 4;

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("arguments: connectString");
            System.exit(2);
        }
        try (CuratorFramework client = CuratorClient.start(args[0], CuratorClient.LONG_SESSION_MILLIS)) {
            CuratorClient.answerCommands(line -> run(client, line.split(" ")));
        }
    }

    private static String run(CuratorFramework client, String[] words) throws Exception {
        String path = words[2];
        switch (words[0]) {
            case "long":
                return number(new DistributedAtomicLong(client, path, RETRY), Long::valueOf, words);
            case "int":
                return number(new DistributedAtomicInteger(client, path, RETRY), Integer::valueOf, words);
            case "ids":
                return ids(new CachedAtomicLong(new DistributedAtomicLong(client, path, RETRY), BLOCK), words);
            case "count":
                return count(client, words);
            case "value":
                return value(client, words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static <T> String number(DistributedAtomicNumber<T> counter, Function<String, T> parse, String[] words)
            throws Exception {
        switch (words[1]) {
            case "get":
                return counter.get().postValue().toString();
            case "add":
                return change(counter.add(parse.apply(words[3])));
            case "cas":
                return Boolean.toString(
                        counter.compareAndSet(parse.apply(words[3]), parse.apply(words[4])).succeeded());
            case "increment":
                for (int times = Integer.parseInt(words[3]); times > 0; times--) {
                    while (!counter.increment().succeeded()) {}
                }
                return "ok";
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    private static String change(AtomicValue<?> value) {
        return value.succeeded() ? value.preValue() + " " + value.postValue() : "failed";
    }

    private static String ids(CachedAtomicLong counter, String[] words) throws Exception {
        StringBuilder ids = new StringBuilder();
        for (int times = Integer.parseInt(words[3]); times > 0; times--) {
            ids.append(counter.next().postValue()).append(' ');
        }
        return ids.toString().trim();
    }

    private static String count(CuratorFramework client, String[] words) throws Exception {
        try (SharedCount count = new SharedCount(client, words[2], 0)) {
            count.start();
            if (words[1].equals("set")) {
                count.setCount(Integer.parseInt(words[3]));
            }
            return Integer.toString(count.getCount());
        }
    }

    private static String value(CuratorFramework client, String[] words) throws Exception {
        try (SharedValue value = new SharedValue(client, words[2], "seed".getBytes(StandardCharsets.UTF_8))) {
            value.start();
            if (words[1].equals("set")) {
                value.setValue(words[3].getBytes(StandardCharsets.UTF_8));
            }
            return new String(value.getValue(), StandardCharsets.UTF_8);
        }
    }
}
