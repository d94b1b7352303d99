// Faults, as a lock of both npm clients sees them.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, test } from "node:test";
import { sessionId, testCluster, testServer } from "zk-test-server";
import { clients, Code, connect } from "./clients.mjs";
import { acquire, createNaively } from "./lock.mjs";

for (const name of clients) {
    describe(`with the npm package ${name}`, () => {
        test("a lock survives a lost reply", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server);
            await client.create("/lock");
            const lost = await server.addRule({
                operation: "create",
                under: "/lock",
                verdict: "loseReply",
                times: 1,
            });

            const lock = await acquire(client, "/lock");

            assert.equal(await lost.hits(), 1);
            const probe = await server.probe();
            assert.deepEqual(
                probe.children("/lock").map((child) => `/lock/${child}`),
                [lock.node],
            );
            assert.equal(probe.node(lock.node).owner, sessionId(client.session));
            await lock.release();
            await server.until({ children: "/lock", count: 0 });
        });

        test("a lost reply is found in a naive lock", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server);
            await client.create("/lock");
            await server.addRule({
                operation: "create",
                under: "/lock",
                verdict: "loseReply",
                times: 1,
            });

            // The second node waits for the first one, which the client does not know.
            const blocked = acquire(client, "/lock", createNaively);
            await server.until({ children: "/lock", count: 2 });
            await server.until({
                watches: `/lock/${(await server.probe()).children("/lock")[0]}`,
                atLeast: 1,
            });

            await server.remove(`/lock/${(await server.probe()).children("/lock")[0]}`);
            await (await blocked).release();
        });

        test("a lost request creates no node", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server);
            for (const verdict of ["loseRequest", "disconnect"]) {
                const rule = await server.addRule({
                    operation: "create",
                    path: "/lost-*",
                    verdict,
                });
                await assert.rejects(client.create("/lost-node"), { code: Code.connectionLoss });
                assert.equal((await server.probe()).node("/lost-node"), undefined);
                assert.equal(await rule.remove(), 1);
                await client.connected();
            }
            await client.create("/lost-node");
        });

        test("the next contender gets the lock of an expired session", async (t) => {
            const server = await testServer(t);
            const [holder, next] = [await connect(t, name, server), await connect(t, name, server)];
            await holder.create("/lock");
            const lost = await acquire(holder, "/lock");
            const waits = acquire(next, "/lock");
            await server.until({ watches: lost.node, atLeast: 1 });

            const expired = once(holder, "expired");
            await server.expire(holder.session);
            const lock = await waits;

            await expired;
            await server.until({ sessionEnded: holder.session });
            await server.until({ absent: lost.node });
            assert.equal((await server.probe()).node(lock.node).owner, sessionId(next.session));
        });

        test("a session expires in a partition", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server, 4_000);
            assert.equal((await server.probe()).session(client.session).timeoutMs, 4_000);
            await client.create("/mine", "", { ephemeral: true });

            // `node-zookeeper-client` does not notice a connection that is silent, only its end.
            const disconnected = once(client, "disconnected");
            const expired = once(client, "expired");
            await server.partition();
            await server.until({ sessionEnded: client.session });
            await server.until({ absent: "/mine" });
            await server.heal();
            await disconnected;
            await expired;
        });

        test("a paused server answers later", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server, 10_000);

            await server.pause();
            const created = client.create("/late");
            await assert.rejects(server.until({ exists: "/late" }, { timeoutMs: 200 }), {
                code: "timeout",
            });
            await server.resume();

            assert.equal(await created, "/late");
        });

        test("a session survives the loss of its connection", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server);
            await client.create("/mine", "", { ephemeral: true });

            const id = sessionId(client.session);
            const lost = once(client, "disconnected");
            assert.equal(await server.disconnect(client.session), 1);
            await lost;
            await client.connected();

            assert.equal(sessionId(client.session), id);
            await server.until({ sessionConnected: id });
            assert.equal((await server.probe()).node("/mine").owner, id);
        });

        test("a watch survives an outage", async (t) => {
            const server = await testServer(t);
            const client = await connect(t, name, server);
            await client.create("/node", "one");
            const watch = new EventEmitter();
            // The C client also reports the outage to watches.
            const changed = once(watch, "changed");
            await client.get("/node", (type) => watch.emit(type));
            await server.until({ watches: "/node", atLeast: 1 });

            const lost = once(client, "disconnected");
            await server.stop();
            await lost;
            assert.equal((await server.info()).members[0].role, "stopped");
            await server.start();
            await client.connected();
            // The client sets its watch again.
            await server.until({ watches: "/node", atLeast: 1 });
            const before = (await server.probe()).notifications;
            await client.set("/node", "two");
            await server.until({ watches: "/node", atLeast: 0 });

            const probe = await server.probe();
            assert.equal(probe.notifications, before + 1);
            assert.deepEqual(probe.watches, []);
            assert.equal(probe.node("/node").data.toString(), "two");
            assert.equal(await client.get("/node"), "two");
            await changed;
        });

        test("a rule refuses and delays requests of one session", async (t) => {
            const server = await testServer(t);
            const [one, other] = [await connect(t, name, server), await connect(t, name, server)];
            await one.create("/node", "data");

            const refused = await server.addRule({
                operation: "getData",
                session: one.session,
                verdict: { refuse: "noAuth" },
            });
            await assert.rejects(one.get("/node"), { code: Code.noAuth });
            assert.equal(await other.get("/node"), "data");
            assert.equal(await refused.remove(), 1);
            await assert.rejects(refused.hits(), { code: "no_such_rule" });
            assert.equal(await one.get("/node"), "data");

            const late = await server.addRule({
                operation: ["setData", "delete"],
                verdict: { delayMs: 300 },
                after: 1,
            });
            await one.set("/node", "first");
            assert.equal(await late.hits(), 0);
            const set = one.set("/node", "second");
            await late.until(1);
            await set;
            assert.equal(await one.get("/node"), "second");
        });

        test("a client goes on when members of a cluster fail", async (t) => {
            const cluster = await testCluster(t, 3);
            const client = await connect(t, name, cluster);
            await client.create("/node", "0");

            for (const round of [1, 2, 3]) {
                const leader = (await cluster.info()).leader;
                await cluster.stop(leader);
                await cluster.until({ leader: true });
                await client.retry(() => client.set("/node", String(round)));
                await cluster.start(leader);
            }
            // Without a majority, nothing is written.
            await cluster.split([0], [1], [2]);
            await cluster.until({ leader: false });
            await cluster.heal();
            await cluster.until({ leader: true });

            await client.retry(() => client.set("/node", "last"));
            assert.equal((await cluster.probe()).node("/node").data.toString(), "last");
        });

        test("a follower lags behind", async (t) => {
            const cluster = await testCluster(t, 3);
            const { leader } = await cluster.info();
            const follower = (leader + 1) % 3;
            const atLeader = await connect(t, name, { connectString: cluster.addresses[leader] });
            const atFollower = await connect(t, name, {
                connectString: cluster.addresses[follower],
            });
            // The follower answers after it has applied the create.
            await atFollower.create("/node", "old");

            const lag = await cluster.lag(follower);
            await atLeader.set("/node", "new");
            assert.equal(await atFollower.get("/node"), "old");
            assert.equal((await cluster.probe(follower)).node("/node").data.toString(), "old");
            assert((await cluster.info()).members[follower].behind > 0);
            await lag.end();
            await assert.rejects(lag.end(), { code: "no_such_lag" });
        });
    });
}

test("sockets work after the C client has lost its own", async (t) => {
    const server = await testServer(t);
    const client = await connect(t, "zookeeper", server, 2_000);
    const disconnected = once(client, "disconnected");
    await server.partition();
    await disconnected;

    // The client has closed its socket, and still polls the number.
    await server.until({ sessionEnded: client.session });
    const other = await testServer(t);
    await other.until({ sessions: 0 });
});
