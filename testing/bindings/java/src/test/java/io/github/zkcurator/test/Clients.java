package io.github.zkcurator.test;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;

/** Clients of Apache Curator for tests. */
final class Clients {
    static final int SESSION_MILLIS = 20_000;

    private Clients() {}

    /** Starts a client that waits for its connection. */
    static CuratorFramework start(String connectString) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(SESSION_MILLIS)
                .connectionTimeoutMs(20_000)
                .retryPolicy(new RetryNTimes(100, 50))
                .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static HasSession session(CuratorFramework client) {
        return () -> client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    static long id(CuratorFramework client) throws Exception {
        return session(client).getSessionId();
    }
}
