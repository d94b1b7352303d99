package io.github.zkcurator.test;

import java.time.Duration;
import java.util.OptionalInt;

/** A fault that a test has caused, for messages of tests that fail. */
public final class JournalEntry {
    private final Duration at;
    private final OptionalInt member;
    private final String fault;

    JournalEntry(Fields entry) {
        at = Duration.ofMillis(entry.integer("at_ms"));
        member = entry.has("member") ? OptionalInt.of(entry.number("member")) : OptionalInt.empty();
        fault = entry.text("fault");
    }

    /**
     * Returns when it happened.
     *
     * @return the time since the start of the server, in milliseconds
     */
    public Duration getAt() {
        return at;
    }

    /**
     * Returns the member that it is about.
     *
     * @return the number of the member from 0; empty if it is about all members
     */
    public OptionalInt getMember() {
        return member;
    }

    /**
     * Returns the fault.
     *
     * @return a text for people
     */
    public String getFault() {
        return fault;
    }

    /** Returns a line of text. */
    @Override
    public String toString() {
        return at.toMillis() + " ms" + (member.isPresent() ? ", member " + member.getAsInt() : "") + ": " + fault;
    }
}
