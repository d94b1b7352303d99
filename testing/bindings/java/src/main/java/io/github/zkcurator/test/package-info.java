/**
 * A ZooKeeper in memory for tests, with faults.
 *
 * <ul>
 *   <li>{@link io.github.zkcurator.test.ZkTestServer} and {@link io.github.zkcurator.test.ZkTestCluster}
 *       start the program {@code zk-test-server}, and have all of its faults.
 *   <li>{@link io.github.zkcurator.test.TestingServer} and
 *       {@link io.github.zkcurator.test.TestingCluster} replace the classes of the same names in Apache
 *       Curator's {@code curator-test}.
 * </ul>
 *
 * <p>The package needs no other library, and works with every client of ZooKeeper.
 */
package io.github.zkcurator.test;
