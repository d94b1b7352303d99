/** The JUnit 5 extension of {@code zk-test-server}. */
package io.github.zkcurator.test.junit5;
