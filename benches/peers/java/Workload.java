/** One workload of the comparison, with the sessions that it needs. */
interface Workload extends AutoCloseable {
    /** Makes everything that so many operations need below a path of their own. */
    Round prepare(String path, int operations) throws Exception;
}
