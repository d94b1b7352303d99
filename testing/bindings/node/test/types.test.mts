// A test in TypeScript, with every type of the package.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    sessionId,
    TestCluster,
    testServer,
    TestServer,
    TestServerError,
    type Condition,
    type Info,
    type LaunchOptions,
    type NodeState,
    type Rule,
    type RuleOptions,
    type Session,
} from "zk-test-server";
import type ZooKeeper from "zookeeper";

test("blocks close servers, and remove rules", async (t) => {
    const options: LaunchOptions = { tickTimeMs: 50, arguments: ["--zookeeper-version", "3.8"] };
    let closed: TestServer;
    {
        await using server = await TestServer.launch(options);
        closed = server;
        const lost: RuleOptions = {
            operation: ["create", "getData"],
            under: "/locks",
            verdict: "loseReply",
            times: 1,
        };
        let removed: Rule;
        {
            await using rule = await server.addRule(lost);
            removed = rule;
            assert.equal(await rule.hits(), 0);
        }
        await assert.rejects(removed.hits(), { code: "no_such_rule" });
        const missing: Condition = { absent: "/locks" };
        const waited: number = await server.until(missing, { timeoutMs: 1_000 });
        assert(waited >= 0);
    }
    await assert.rejects(
        closed.info(),
        (error) => error instanceof TestServerError && error.code === "closed",
    );
});

test("the types of results", async (t) => {
    const server = await testServer(t);
    const info: Info = await server.info();
    const leader: number | null = info.leader;
    const nodes: readonly NodeState[] = (await server.probe()).nodes;
    const owners: (bigint | null)[] = nodes.map((node) => node.owner);
    const texts: (string | undefined)[] = nodes.map((node) => node.data?.toString("utf8"));
    assert.equal(owners.length, texts.length);
    assert(leader === null || leader === 0);
});

/** Compiled only: what the types have to accept, and to refuse. */
export async function compiled(cluster: TestCluster, client: ZooKeeper): Promise<void> {
    const session: Session = client;
    const id: bigint = sessionId(session);
    await cluster.expire(client);
    await cluster.until({ sessionEnded: id });
    await using lag = await cluster.lag(1, { delayMs: 100 });
    await lag.end();
    // @ts-expect-error a number loses digits of a session
    await cluster.expire(17);
    // @ts-expect-error there is no such verdict
    await cluster.addRule({ verdict: "explode" });
    // @ts-expect-error there is no such operation
    await cluster.addRule({ operation: "fly", verdict: "disconnect" });
    // @ts-expect-error a count is missing
    await cluster.until({ children: "/a" });
    // @ts-expect-error members are numbers
    await cluster.pause("0");
    // @ts-expect-error one server cannot be split
    await (await TestServer.launch()).split([0], [1]);
}
