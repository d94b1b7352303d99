package io.github.zkcurator.test;

import java.time.Duration;

/**
 * A rule that is installed at a server. {@link #close} removes it, so that a {@code try} block limits
 * it:
 *
 * <pre>{@code
 * try (Rule lost = server.addRule(RuleSpec.loseReply().on(Operation.CREATE).times(1))) {
 *     mutex.acquire();
 *     lost.awaitHits(1, Duration.ofSeconds(10));
 * }
 * }</pre>
 *
 * <p>Methods throw {@link ServerGoneException} after the server is closed.
 */
public final class Rule implements AutoCloseable {
    private final ZkTestServer server;
    private final String name;

    Rule(ZkTestServer server, String name) {
        this.server = server;
        this.name = name;
    }

    /**
     * Returns the name of the rule.
     *
     * @return the name, chosen by {@link RuleSpec#named} or by the server
     */
    public String getName() {
        return name;
    }

    /**
     * Returns how many times the rule has fired.
     *
     * @return the number
     * @throws ControlException with {@link ErrorCode#NO_SUCH_RULE} if the rule was removed
     */
    public long hits() {
        return server.control().call("rule", "rule", name).integer("hits");
    }

    /**
     * Waits until the rule has fired.
     *
     * @param hits the minimum number of times
     * @param timeout the longest wait, from 0 to 4,294,967,295 ms; 0 checks once
     * @return the time that the call waited
     * @throws ConditionTimeoutException if the rule has not fired as often in time
     * @throws ControlException with {@link ErrorCode#NO_SUCH_RULE} if the rule does not exist
     */
    public Duration awaitHits(int hits, Duration timeout) {
        return server.until(Condition.rule(name, hits), timeout);
    }

    /**
     * Removes the rule.
     *
     * @return the number of times that it has fired
     * @throws ControlException with {@link ErrorCode#NO_SUCH_RULE} if it was removed before
     */
    public long remove() {
        return server.control().call("remove_rule", "rule", name).integer("hits");
    }

    /** Removes the rule. Has no effect if it was removed before, or if the server is closed. */
    @Override
    public void close() {
        try {
            if (server.isRunning()) {
                remove();
            }
        } catch (ControlException error) {
            if (error.getCode() != ErrorCode.NO_SUCH_RULE) {
                throw error;
            }
        } catch (ServerGoneException error) {
            if (server.isRunning()) {
                throw error;
            }
        }
    }

    /** Returns the name, for messages. */
    @Override
    public String toString() {
        return "Rule(" + name + ")";
    }
}
