package io.github.zkcurator.test;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * A rule to install with {@link ZkTestServer#addRule}: a verdict, and conditions that select requests.
 *
 * <p>A rule fires for the requests that match all of its conditions. Without conditions it fires for
 * every request, pings included. The first rule that fires decides. If an operation and a path are
 * given, one operation of a transaction must match both.
 *
 * <p>Objects of this class are immutable: each method returns a new one.
 *
 * <pre>{@code
 * // The second create below /locks is applied, but its reply is lost.
 * RuleSpec.loseReply().on(Operation.CREATE).under("/locks").after(1).times(1)
 * }</pre>
 */
public final class RuleSpec {
    private final Map<String, Object> parameters;

    private RuleSpec(Map<String, Object> parameters) {
        this.parameters = parameters;
    }

    private static RuleSpec verdict(Object verdict) {
        return new RuleSpec(Collections.singletonMap("verdict", verdict));
    }

    private RuleSpec with(String name, Object value) {
        Map<String, Object> all = new LinkedHashMap<>(parameters);
        all.put(name, value);
        return new RuleSpec(Collections.unmodifiableMap(all));
    }

    Map<String, Object> parameters() {
        return parameters;
    }

    /**
     * The request is applied, its reply is lost, and the connection ends. The client cannot know if the
     * request was applied.
     *
     * @return a rule for every request
     */
    public static RuleSpec loseReply() {
        return verdict("lose_reply");
    }

    /**
     * The request is not applied, and the connection ends after earlier replies.
     *
     * @return a rule for every request
     */
    public static RuleSpec loseRequest() {
        return verdict("lose_request");
    }

    /**
     * The request is not applied, and the connection ends immediately.
     *
     * @return a rule for every request
     */
    public static RuleSpec disconnect() {
        return verdict("disconnect");
    }

    /**
     * The request, and all after it on this connection, arrive later, at the latest when the rule is
     * removed.
     *
     * @param delay from 0 to 4,294,967,295 ms, rounded up to milliseconds
     * @return a rule for every request
     * @throws IllegalArgumentException if the delay is out of range
     */
    public static RuleSpec delay(Duration delay) {
        return verdict(Collections.singletonMap("delay_ms", Values.millis("delay", delay)));
    }

    /**
     * The request is not applied, and answered with an error.
     *
     * @param error the name of the error in lower case, such as {@code connection_loss}, {@code no_node},
     *     {@code no_auth} or {@code throttled}
     * @return a rule for every request
     */
    public static RuleSpec refuse(String error) {
        return verdict(Collections.singletonMap("refuse", Objects.requireNonNull(error, "refuse: no error")));
    }

    /**
     * The request is not applied, and answered with an error.
     *
     * @param code the code of the error, as in {@code KeeperException.Code.intValue()}, such as -112
     * @return a rule for every request
     */
    public static RuleSpec refuse(int code) {
        return verdict(Collections.singletonMap("refuse", code));
    }

    /**
     * Names the rule. The default is a name that the server chooses, such as {@code rule-1}. A name that
     * is present is refused when the rule is installed.
     *
     * @param name the name
     * @return the rule with this name
     */
    public RuleSpec named(String name) {
        return with("name", Objects.requireNonNull(name, "named: no name"));
    }

    /**
     * Selects operations. A transaction also matches by each of its operations. The default is every
     * operation.
     *
     * @param operations one operation or more
     * @return the rule for these operations
     * @throws IllegalArgumentException if there is no operation
     */
    public RuleSpec on(Operation... operations) {
        Values.atLeast(1, "on", "the number of operations", operations.length);
        List<Object> names = new ArrayList<>();
        for (Operation operation : operations) {
            names.add(operation.protocolName());
        }
        return with("operation", names);
    }

    /**
     * Selects requests that have a path that matches. {@code *} is any characters except slashes,
     * {@code ?} is one, and a component {@code **} is any number of components. Sequence numbers are not
     * part of the path. The default is every path, and requests without one.
     *
     * @param pattern a pattern that begins with a slash
     * @return the rule for these paths
     * @throws IllegalArgumentException if the pattern does not begin with a slash
     */
    public RuleSpec path(String pattern) {
        return with("path", Values.path("path", pattern));
    }

    /**
     * Selects requests for children of a node. Deeper nodes do not match. The default is no restriction.
     *
     * @param parent the path of the parent, without patterns
     * @return the rule for these paths
     * @throws IllegalArgumentException if the path does not begin with a slash, or is a pattern
     */
    public RuleSpec under(String parent) {
        if (parent.contains("*") || parent.contains("?")) {
            throw new IllegalArgumentException("under: '" + parent + "' is a pattern, which only path takes");
        }
        return with("under", Values.path("under", parent));
    }

    /**
     * Selects the requests of a session. The default is every session.
     *
     * @param sessionId the id of the session
     * @return the rule for this session
     */
    public RuleSpec session(long sessionId) {
        return with("session", Values.id(sessionId));
    }

    /**
     * Selects the requests of the present session of a client. The default is every session.
     *
     * @param client the client
     * @return the rule for this session
     * @throws IllegalStateException if the client has no session
     */
    public RuleSpec session(HasSession client) {
        return with("session", Values.session("session", client));
    }

    /**
     * Selects the requests that a member of an ensemble receives. The default is every member.
     *
     * @param member the number of the member, from 0
     * @return the rule for this member
     * @throws IllegalArgumentException if the number is negative
     */
    public RuleSpec member(int member) {
        return with("member", Values.atLeast(0, "member", "the member", member));
    }

    /**
     * Lets matching requests pass before the rule fires. The default is 0.
     *
     * @param count the number of requests that pass
     * @return the rule that fires later
     * @throws IllegalArgumentException if the number is negative
     */
    public RuleSpec after(int count) {
        return with("after", Values.atLeast(0, "after", "the number of requests", count));
    }

    /**
     * Limits how many times the rule fires. The default is no limit.
     *
     * @param count the maximum, at least 1
     * @return the rule with a limit
     * @throws IllegalArgumentException if the number is less than 1
     */
    public RuleSpec times(int count) {
        return with("times", Values.atLeast(1, "times", "the number of times", count));
    }

    /** Returns the parameters in the form of the protocol, for messages. */
    @Override
    public String toString() {
        return String.format(Locale.ROOT, "RuleSpec%s", Json.write(parameters));
    }
}
