import type { LaunchOptions } from "./process";
import { TestCluster, TestServer } from "./server";

/** A test of `node:test`, or another one that runs hooks at its end. */
export interface Test {
    after(hook: () => Promise<void>): unknown;
}

/**
 * Starts a server for a test of `node:test`, and closes it after the test.
 *
 * Fails as {@link TestServer.launch} does.
 */
export async function testServer(t: Test, options: LaunchOptions = {}): Promise<TestServer> {
    const server = await TestServer.launch(options);
    t.after(() => server.close());
    return server;
}

/**
 * Starts an ensemble for a test of `node:test`, and closes it after the test.
 *
 * Fails as {@link TestCluster.launch} does.
 */
export async function testCluster(
    t: Test,
    members: number,
    options: LaunchOptions = {},
): Promise<TestCluster> {
    const cluster = await TestCluster.launch(members, options);
    t.after(() => cluster.close());
    return cluster;
}
