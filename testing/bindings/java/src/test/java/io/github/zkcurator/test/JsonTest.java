package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class JsonTest {
    private static void refuses(String problem, String text) {
        String shown = text.length() > 50 ? text.substring(0, 50) : text;
        Json.Malformed error = assertThrows(Json.Malformed.class, () -> Json.parse(text), shown);
        assertTrue(error.getMessage().startsWith(problem + " at character "), error.getMessage());
    }

    @Test
    void readsEveryKindOfValue() throws Json.Malformed {
        Map<String, Object> expected = new LinkedHashMap<>();
        expected.put("a", Arrays.asList(0L, -1L, Long.MAX_VALUE, Long.MIN_VALUE, 0.5, -1e300, 25.0));
        expected.put("b", null);
        expected.put("", Arrays.asList(true, false, Collections.emptyList(), Collections.emptyMap()));
        expected.put("c", "\"\\/\b\f\n\r\té\uD83D\uDE00");
        assertEquals(expected, Json.parse(" {\"a\": [0,-1 , 9223372036854775807, -9223372036854775808,"
                + "0.5,-1e300,2.5E+1],\t\"b\":null,\"\":[true,false,[],{ }],\r\n"
                + "\"c\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"} "));
    }

    @Test
    void refusesWhatIsNotJson() {
        for (String text :
                new String[] {"", " ", "[", "{", "[1", "{\"a\"", "{\"a\":", "{\"a\":1", "[1,", "{\"a\":1,"}) {
            refuses("the text ends", text);
        }
        for (String text :
                new String[] {"tr", "nul", "falsy", "+1", ".5", "-", "01", "-01", "NaN", "'a'", "[,1]", "]"}) {
            refuses("no value", text);
        }
        for (String text : new String[] {"1 2", "{}}", "\"a\"b", "nullnull", "1.5.5", "1x"}) {
            refuses("text after the value", text);
        }
        for (String text : new String[] {"1.", "1e", "1e+", "-0.e1"}) {
            refuses("a number without digits", text);
        }
        refuses("no key", "{a:1}");
        refuses("no key", "{\"a\":1,}");
        refuses("no ':'", "{\"a\" 1}");
        refuses("neither ',' nor ']'", "[1 2]");
        refuses("neither ',' nor '}'", "{\"a\":1;}");
        refuses("a repeated key", "{\"a\":null,\"a\":2}");
        refuses("an integer of more than 64 bits", "9223372036854775808");
        refuses("a string without end", "\"a");
        refuses("a string without end", "\"a\\");
        refuses("a control character in a string", "\"a\n\"");
        refuses("an unknown escape", "\"\\x\"");
        refuses("an escape without four hexadecimal digits", "\"\\u12\"");
        refuses("an escape without four hexadecimal digits", "\"\\u\u0661\u0661\u0661\u0661\"");
    }

    @Test
    void limitsTheDepth() throws Json.Malformed {
        String deepest = "[".repeat(Json.MAX_DEPTH) + "1" + "]".repeat(Json.MAX_DEPTH);
        Json.parse(deepest);
        refuses("more than 64 levels", "[" + deepest + "]");
        refuses("more than 64 levels", "[".repeat(1_000_000));
        refuses("more than 64 levels", "{\"a\":".repeat(1_000_000));
    }

    @Test
    void readsWhatItWrites() throws Json.Malformed {
        StringBuilder symbols = new StringBuilder();
        for (char symbol = 0; symbol < 0x180; symbol++) {
            symbols.append(symbol);
        }
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("text", symbols + "\u2028\uD83D\uDE00\uD800");
        value.put("\"\n", Arrays.asList(1L, null, true, Collections.emptyMap(), Collections.emptyList()));
        String text = Json.write(value);
        assertEquals(value, Json.parse(text));
        assertTrue(text.chars().noneMatch(symbol -> symbol < ' '), "a message is one line");
    }

    @Test
    void damagedTextsNeverCrashTheReader() {
        String text = "{\"id\":12,\"ok\":{\"a\":[\"\\u00e9\\n\",-1.5e3,true,null],\"b\":\"0x1f\"}}";
        Random random = new Random(7);
        int refused = 0;
        for (int round = 0; round < 50_000; round++) {
            StringBuilder damaged = new StringBuilder(text);
            for (int change = 0; change <= random.nextInt(3); change++) {
                int symbol = random.nextInt(round % 2 == 0 ? 128 : 0x10000);
                damaged.setCharAt(random.nextInt(damaged.length()), (char) symbol);
            }
            try {
                Json.parse(damaged.substring(0, random.nextInt(damaged.length() + 1)));
            } catch (Json.Malformed error) {
                refused++;
            }
        }
        assertTrue(refused > 25_000, "refused " + refused);
    }
}
