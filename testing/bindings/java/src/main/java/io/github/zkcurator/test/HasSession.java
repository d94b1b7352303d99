package io.github.zkcurator.test;

/**
 * A client with a session, so that the package needs no class of a client library.
 *
 * <ul>
 *   <li>{@code org.apache.zookeeper.ZooKeeper}: {@code server.expire(zooKeeper::getSessionId)}
 *   <li>Curator: {@code server.expire(() ->
 *       framework.getZookeeperClient().getZooKeeper().getSessionId())}
 * </ul>
 */
@FunctionalInterface
public interface HasSession {
    /**
     * Returns the id of the present session.
     *
     * @return the 64-bit id; 0 if there is no session yet
     * @throws Exception if the client cannot tell
     */
    long getSessionId() throws Exception;
}
