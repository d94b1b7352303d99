/** Operations that are done once, all of them: the warm-up, or what is measured. */
interface Round extends AutoCloseable {
    /** Does them; returns when the server has confirmed the last. */
    void run(Samples samples) throws Exception;

    /** How many it does. */
    int operations();

    /** What has been seen of them. */
    String check();

    @Override
    default void close() throws Exception {}
}
