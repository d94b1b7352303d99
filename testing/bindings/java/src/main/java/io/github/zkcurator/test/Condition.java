package io.github.zkcurator.test;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A condition for {@link ZkTestServer#until}. In an ensemble, conditions are about the member with the
 * latest state, and about the watches of all members.
 */
public final class Condition {
    private final Map<String, Object> parameters = new LinkedHashMap<>();

    private Condition(String name, Object value) {
        parameters.put(name, value);
    }

    private Condition and(String name, Object value) {
        parameters.put(name, value);
        return this;
    }

    Map<String, Object> parameters() {
        return parameters;
    }

    /**
     * The node exists.
     *
     * @param path the path of the node
     * @return the condition
     * @throws IllegalArgumentException if the path does not begin with a slash
     */
    public static Condition exists(String path) {
        return new Condition("exists", Values.path("exists", path));
    }

    /**
     * The node does not exist.
     *
     * @param path the path of the node
     * @return the condition
     * @throws IllegalArgumentException if the path does not begin with a slash
     */
    public static Condition absent(String path) {
        return new Condition("absent", Values.path("absent", path));
    }

    /**
     * The node exists and has exactly a number of children.
     *
     * @param path the path of the node
     * @param count the number of children
     * @return the condition
     * @throws IllegalArgumentException if the path does not begin with a slash, or the number is negative
     */
    public static Condition children(String path, int count) {
        return new Condition("children", Values.path("children", path))
                .and("count", Values.atLeast(0, "children", "the count", count));
    }

    /**
     * At least a number of watches are set on a path, of any kind and of all clients.
     *
     * @param path the path
     * @param atLeast the minimum
     * @return the condition
     * @throws IllegalArgumentException if the path does not begin with a slash, or the number is negative
     */
    public static Condition watches(String path, int atLeast) {
        return new Condition("watches", Values.path("watches", path))
                .and("at_least", Values.atLeast(0, "watches", "the minimum", atLeast));
    }

    /**
     * There are exactly a number of sessions.
     *
     * @param count the number of sessions
     * @return the condition
     * @throws IllegalArgumentException if the number is negative
     */
    public static Condition sessions(int count) {
        return new Condition("sessions", Values.atLeast(0, "sessions", "the count", count));
    }

    /**
     * The session has expired or was closed.
     *
     * @param sessionId the id of the session
     * @return the condition
     */
    public static Condition sessionEnded(long sessionId) {
        return new Condition("session_ended", Values.id(sessionId));
    }

    /**
     * The present session of a client has expired or was closed.
     *
     * @param client the client, which is asked for its session now
     * @return the condition
     * @throws IllegalStateException if the client has no session
     */
    public static Condition sessionEnded(HasSession client) {
        return new Condition("session_ended", Values.session("sessionEnded", client));
    }

    /**
     * The session has a connection.
     *
     * @param sessionId the id of the session
     * @return the condition
     */
    public static Condition sessionConnected(long sessionId) {
        return new Condition("session_connected", Values.id(sessionId));
    }

    /**
     * The present session of a client has a connection.
     *
     * @param client the client, which is asked for its session now
     * @return the condition
     * @throws IllegalStateException if the client has no session
     */
    public static Condition sessionConnected(HasSession client) {
        return new Condition("session_connected", Values.session("sessionConnected", client));
    }

    /**
     * The session has no connection, or has ended.
     *
     * @param sessionId the id of the session
     * @return the condition
     */
    public static Condition sessionDisconnected(long sessionId) {
        return new Condition("session_disconnected", Values.id(sessionId));
    }

    /**
     * The present session of a client has no connection, or has ended.
     *
     * @param client the client, which is asked for its session now
     * @return the condition
     * @throws IllegalStateException if the client has no session
     */
    public static Condition sessionDisconnected(HasSession client) {
        return new Condition("session_disconnected", Values.session("sessionDisconnected", client));
    }

    /**
     * The rule has fired at least a number of times.
     *
     * @param name the name of the rule
     * @param hits the minimum
     * @return the condition
     * @throws IllegalArgumentException if the number is negative
     */
    public static Condition rule(String name, int hits) {
        return new Condition("rule", name).and("hits", Values.atLeast(0, "rule", "the minimum", hits));
    }

    /**
     * There is a leader, or there is none.
     *
     * @param present {@code true} to wait for a leader, {@code false} to wait until there is none
     * @return the condition
     */
    public static Condition leader(boolean present) {
        return new Condition("leader", present);
    }

    /** Returns the condition in the form of the protocol, for messages. */
    @Override
    public String toString() {
        return "Condition" + Json.write(parameters);
    }
}
