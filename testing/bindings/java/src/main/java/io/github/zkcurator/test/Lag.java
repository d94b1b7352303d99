package io.github.zkcurator.test;

/** A member of an ensemble that applies commits late. {@link #close} ends it. */
public final class Lag implements AutoCloseable {
    private final ZkTestCluster cluster;
    private final long lag;

    Lag(ZkTestCluster cluster, long lag) {
        this.cluster = cluster;
        this.lag = lag;
    }

    /**
     * Ends the lag: the member applies what it has missed.
     *
     * @throws ControlException with {@link ErrorCode#NO_SUCH_LAG} if it has ended before
     * @throws ServerGoneException if the cluster is closed
     */
    public void end() {
        cluster.control().call("end_lag", "lag", lag);
    }

    /** Ends the lag. Has no effect if it has ended before, or if the cluster is closed. */
    @Override
    public void close() {
        try {
            if (cluster.isRunning()) {
                end();
            }
        } catch (ControlException error) {
            if (error.getCode() != ErrorCode.NO_SUCH_LAG) {
                throw error;
            }
        } catch (ServerGoneException error) {
            if (cluster.isRunning()) {
                throw error;
            }
        }
    }
}
