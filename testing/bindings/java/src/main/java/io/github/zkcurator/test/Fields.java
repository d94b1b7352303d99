package io.github.zkcurator.test;

import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** The fields of an object in a response. A missing field, or one of another type, is an error. */
final class Fields {
    private final String call;
    private final Map<?, ?> object;

    Fields(String call, Object value) {
        this.call = call;
        if (!(value instanceof Map)) {
            throw unexpected("an object", value);
        }
        object = (Map<?, ?>) value;
    }

    boolean has(String name) {
        return object.get(name) != null;
    }

    Object raw(String name) {
        return object.get(name);
    }

    String text(String name) {
        return as(String.class, name, object.get(name));
    }

    boolean flag(String name) {
        return as(Boolean.class, name, object.get(name));
    }

    long integer(String name) {
        return as(Long.class, name, object.get(name));
    }

    int number(String name) {
        long value = integer(name);
        if (value != (int) value) {
            throw unexpected("a 32-bit integer in '" + name + "'", value);
        }
        return (int) value;
    }

    /** Returns a session or a zxid. */
    long id(String name) {
        return id(name, object.get(name));
    }

    byte[] data(String name) {
        try {
            return Base64.getDecoder().decode(text(name));
        } catch (IllegalArgumentException error) {
            throw unexpected("base64 in '" + name + "'", object.get(name));
        }
    }

    List<String> texts(String name) {
        return list(name, item -> as(String.class, name, item));
    }

    List<Long> ids(String name) {
        return list(name, item -> id(name, item));
    }

    <T> List<T> objects(String name, Function<Fields, T> of) {
        return list(name, item -> of.apply(new Fields(call, item)));
    }

    Fields object(String name) {
        return new Fields(call, as(Map.class, name, object.get(name)));
    }

    List<String> names() {
        List<String> names = new ArrayList<>();
        object.keySet().forEach(name -> names.add((String) name));
        return names;
    }

    private <T> List<T> list(String name, Function<Object, T> of) {
        List<T> list = new ArrayList<>();
        for (Object item : as(List.class, name, object.get(name))) {
            list.add(of.apply(item));
        }
        return Collections.unmodifiableList(list);
    }

    private long id(String name, Object value) {
        String text = as(String.class, name, value);
        try {
            if (text.startsWith("0x")) {
                return Long.parseUnsignedLong(text.substring(2), 16);
            }
        } catch (NumberFormatException error) {
            // Falls through.
        }
        throw unexpected("0x and hexadecimal digits in '" + name + "'", text);
    }

    private <T> T as(Class<T> type, String name, Object value) {
        if (!type.isInstance(value)) {
            throw unexpected("a value of type " + type.getSimpleName() + " in '" + name + "'", value);
        }
        return type.cast(value);
    }

    private ServerGoneException unexpected(String wanted, Object value) {
        String text = String.valueOf(value);
        String shown = text.length() > 100 ? text.substring(0, 100) + "…" : text;
        return new ServerGoneException(call + ": the response has not " + wanted + ", but " + shown, null);
    }
}
