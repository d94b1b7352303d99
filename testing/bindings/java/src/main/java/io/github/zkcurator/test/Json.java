package io.github.zkcurator.test;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A reader and writer of JSON (RFC 8259), because the package has no dependencies.
 *
 * <p>Values are {@code Map<String, Object>}, {@code List<Object>}, {@code String}, {@code Long},
 * {@code Double}, {@code Boolean} and {@code null}. The reader refuses what it does not understand:
 * nesting of more than {@value #MAX_DEPTH} levels, a key that is repeated in its object, and an
 * integer of more than 64 bits.
 */
final class Json {
    /** The maximum nesting of arrays and objects. Deeper input would exhaust the stack. */
    static final int MAX_DEPTH = 64;

    private Json() {}

    /** Thrown for a text that is not JSON. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;

        Malformed(String problem, int position) {
            super(problem + " at character " + position);
        }
    }

    static Object parse(String text) throws Malformed {
        Reader reader = new Reader(text);
        Object value = reader.value(0);
        reader.skipSpace();
        if (reader.position < text.length()) {
            throw reader.malformed("text after the value");
        }
        return value;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof String) {
            quote((String) value, out);
        } else if (value == null || value instanceof Boolean || value instanceof Long || value instanceof Integer) {
            out.append(value);
        } else if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                quote((String) entry.getKey(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String separator = "[";
            for (Object item : (List<?>) value) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else {
            throw new IllegalArgumentException("not a value of a request: " + value.getClass());
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int index = 0; index < text.length(); index++) {
            char symbol = text.charAt(index);
            if (symbol == '"' || symbol == '\\') {
                out.append('\\').append(symbol);
            } else if (symbol < ' ' || Character.isSurrogate(symbol)) {
                // A lone surrogate has no form in UTF-8. The server refuses its escape.
                out.append(String.format("\\u%04x", (int) symbol));
            } else {
                out.append(symbol);
            }
        }
        out.append('"');
    }

    private static final class Reader {
        private final String text;
        private int position;

        Reader(String text) {
            this.text = text;
        }

        Malformed malformed(String problem) {
            return new Malformed(problem, position);
        }

        void skipSpace() {
            while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) {
                position++;
            }
        }

        /** Skips white space, then returns the next character without consuming it. */
        char peek() throws Malformed {
            skipSpace();
            if (position == text.length()) {
                throw malformed("the text ends");
            }
            return text.charAt(position);
        }

        void expect(char wanted) throws Malformed {
            if (peek() != wanted) {
                throw malformed("no '" + wanted + "'");
            }
            position++;
        }

        /** Consumes a separator. Returns false if it is the closing character. */
        boolean continues(char closing) throws Malformed {
            char symbol = peek();
            if (symbol != ',' && symbol != closing) {
                throw malformed("neither ',' nor '" + closing + "'");
            }
            position++;
            return symbol == ',';
        }

        Object value(int depth) throws Malformed {
            if (depth > MAX_DEPTH) {
                throw malformed("more than " + MAX_DEPTH + " levels");
            }
            char symbol = peek();
            switch (symbol) {
                case '{':
                    return object(depth);
                case '[':
                    return array(depth);
                case '"':
                    return string();
                case 't':
                    return word("true", Boolean.TRUE);
                case 'f':
                    return word("false", Boolean.FALSE);
                case 'n':
                    return word("null", null);
                default:
                    return number();
            }
        }

        private Object word(String word, Object value) throws Malformed {
            if (!text.startsWith(word, position)) {
                throw malformed("no value");
            }
            position += word.length();
            return value;
        }

        private Map<String, Object> object(int depth) throws Malformed {
            Map<String, Object> object = new LinkedHashMap<>();
            expect('{');
            if (peek() == '}') {
                position++;
                return object;
            }
            do {
                if (peek() != '"') {
                    throw malformed("no key");
                }
                String key = string();
                expect(':');
                Object value = value(depth + 1);
                if (object.containsKey(key)) {
                    throw malformed("a repeated key");
                }
                object.put(key, value);
            } while (continues('}'));
            return object;
        }

        private List<Object> array(int depth) throws Malformed {
            List<Object> array = new ArrayList<>();
            expect('[');
            if (peek() == ']') {
                position++;
                return array;
            }
            do {
                array.add(value(depth + 1));
            } while (continues(']'));
            return array;
        }

        private String string() throws Malformed {
            position++;
            StringBuilder out = new StringBuilder();
            while (true) {
                if (position == text.length()) {
                    throw malformed("a string without end");
                }
                char symbol = text.charAt(position);
                if (symbol < ' ') {
                    throw malformed("a control character in a string");
                }
                position++;
                if (symbol == '"') {
                    return out.toString();
                }
                out.append(symbol == '\\' ? escaped() : symbol);
            }
        }

        private char escaped() throws Malformed {
            if (position == text.length()) {
                throw malformed("a string without end");
            }
            int index = "\"\\/bfnrtu".indexOf(text.charAt(position));
            if (index < 0) {
                throw malformed("an unknown escape");
            }
            position++;
            return index < 8 ? "\"\\/\b\f\n\r\t".charAt(index) : hexadecimal();
        }

        private char hexadecimal() throws Malformed {
            int code = 0;
            for (int count = 0; count < 4; count++) {
                int digit = position < text.length() ? hexDigit(text.charAt(position)) : -1;
                if (digit < 0) {
                    throw malformed("an escape without four hexadecimal digits");
                }
                code = code * 16 + digit;
                position++;
            }
            return (char) code;
        }

        private static int hexDigit(char symbol) {
            // Other scripts have digits, too.
            return symbol < 128 ? Character.digit(symbol, 16) : -1;
        }

        private Object number() throws Malformed {
            int start = position;
            skip('-');
            int digits = position;
            int count = digits();
            if (count == 0 || count > 1 && text.charAt(digits) == '0') {
                position = start;
                throw malformed("no value");
            }
            boolean integer = true;
            if (skip('.')) {
                integer = false;
                requireDigits();
            }
            if (skip('e') || skip('E')) {
                integer = false;
                if (!skip('-')) {
                    skip('+');
                }
                requireDigits();
            }
            String number = text.substring(start, position);
            try {
                return integer ? (Object) Long.valueOf(number) : (Object) Double.valueOf(number);
            } catch (NumberFormatException error) {
                throw new Malformed("an integer of more than 64 bits", start);
            }
        }

        private boolean skip(char wanted) {
            boolean there = position < text.length() && text.charAt(position) == wanted;
            position += there ? 1 : 0;
            return there;
        }

        private int digits() {
            int start = position;
            while (position < text.length() && text.charAt(position) >= '0' && text.charAt(position) <= '9') {
                position++;
            }
            return position - start;
        }

        private void requireDigits() throws Malformed {
            if (digits() == 0) {
                throw malformed("a number without digits");
            }
        }
    }
}
