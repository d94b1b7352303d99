// Every call, and the errors of the program.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { sessionId, testCluster, testServer, TestServer, TestServerError } from "zk-test-server";
import { clients, connect } from "./clients.mjs";

const [name] = clients;

test("a probe has nodes, sessions, watches and requests", async (t) => {
    const server = await testServer(t);
    assert.deepEqual((await server.probe()).nodes, []);
    const client = await connect(t, name, server, 5_000);
    const id = sessionId(client.session);
    await client.create("/a", "data");
    await client.create("/a/b", "", { ephemeral: true });
    await client.set("/a", "\u00e9");
    await client.get("/a", () => undefined);

    const probe = await server.probe();
    const { czxid, mzxid, pzxid, data, ...node } = probe.node("/a");
    const rest = {
        path: "/a",
        version: 1,
        cversion: 1,
        owner: null,
        container: false,
        ttlMs: null,
        children: 1,
    };
    assert.deepEqual(node, rest);
    assert.equal(data.toString(), "\u00e9");
    assert(czxid < pzxid && pzxid < mzxid && mzxid === probe.zxid);
    assert.equal(probe.node("/a/b").owner, id);
    assert.equal(probe.node("/c"), undefined);
    assert.deepEqual(
        [probe.children("/"), probe.children("/a"), probe.children("/a/b")],
        [["a"], ["b"], []],
    );
    const session = { session: id, timeoutMs: 5_000, connected: true, ephemerals: ["/a/b"] };
    assert.deepEqual(
        { ...probe.session(client.session) },
        { ...session, identities: probe.sessions[0].identities },
    );
    assert.equal(probe.session(id - 1n), undefined);
    assert.deepEqual(probe.watches, [{ session: id, path: "/a", kind: "data" }]);
    assert.equal(probe.connections, 1);
    assert.deepEqual(
        [probe.requests.create, probe.requests.setData, probe.requests.getData],
        [2, 1, 1],
    );
});

test("many conditions are waited for at the same time", async (t) => {
    const server = await testServer(t);
    const waits = Array.from({ length: 40 }, (_, number) =>
        server.until({ exists: `/node-${number}` }),
    );
    const client = await connect(t, name, server);
    await server.until({ sessions: 1 });
    await server.until({ sessionConnected: client.session });
    for (let number = 0; number < 40; number++) {
        await client.create(`/node-${number}`);
    }
    assert((await Promise.all(waits)).every((waited) => Number.isInteger(waited) && waited >= 0));
    // Connections are used again: 64 are the limit.
    await Promise.all(waits.map((_, number) => server.until({ exists: `/node-${number}` })));
});

test("a wait that fails has the present state", async (t) => {
    const server = await testServer(t);
    const error = await server
        .until({ exists: "/never" }, { timeoutMs: 0 })
        .catch((reason) => reason);
    assert(error instanceof TestServerError);
    assert.deepEqual([error.code, error.call, error.name], ["timeout", "until", "TestServerError"]);
    assert.match(error.message, /^until: /);
    assert.match(error.stack, /calls\.test\.mjs/);
});

test("sessions are clients, numbers or texts", async (t) => {
    const server = await testServer(t);
    for (const client of [
        await connect(t, "zookeeper", server),
        await connect(t, "node-zookeeper-client", server),
    ]) {
        const id = sessionId(client.session);
        for (const session of [client.session, id, BigInt.asIntN(64, id), `0x${id.toString(16)}`]) {
            await server.until({ sessionConnected: session });
            assert.equal(sessionId(session), id);
        }
    }
    assert.equal(sessionId(-1n), 0xffff_ffff_ffff_ffffn);
    for (const wrong of [
        0n,
        1n << 64n,
        -(1n << 63n) - 1n,
        "1f",
        "0x",
        "0x1g",
        17,
        null,
        undefined,
        {},
        { client_id: "0" },
    ]) {
        assert.throws(() => sessionId(wrong), { code: "bad_request" }, String(wrong));
        if (wrong !== undefined) {
            await assert.rejects(server.disconnect(wrong), {
                code: "bad_request",
                call: "disconnect",
            });
        }
        await assert.rejects(server.expire(wrong), { code: "bad_request", call: "expire" });
    }
    await assert.rejects(server.expire(1n), { code: "no_such_session" });
    await assert.rejects(server.disconnect(1n), { code: "no_such_session" });
});

test("versions, sequence numbers, clocks and nodes are set", async (t) => {
    const server = await testServer(t);
    const client = await connect(t, name, server);
    await client.create("/a");
    await server.setVersion("/a", 2_147_483_647);
    assert.equal((await server.probe()).node("/a").version, 2_147_483_647);
    await server.setSequence("/a", 41);
    assert.equal(
        await client.create("/a/n-", "", { sequential: true, ephemeral: true }),
        "/a/n-0000000041",
    );
    await server.shiftWallClock(-60_000);
    await server.shiftWallClock(60_000, 0);
    assert.deepEqual(await server.remove("/a"), [sessionId(client.session)]);
    assert.deepEqual((await server.probe()).children("/"), []);
    await assert.rejects(server.remove("/a"), { code: "no_such_node" });
    await assert.rejects(server.setVersion("/a", 1), { code: "no_such_node" });
    assert.deepEqual(await server.reapContainers(), []);
});

test("time passes for sessions", async (t) => {
    const server = await testServer(t);
    const client = await connect(t, name, server, 30_000);
    const expired = once(client, "expired");
    await server.partition();
    await server.advance(40_000);
    await server.until({ sessionEnded: client.session });
    await server.heal();
    await expired;
});

test("roles, rules and the journal", async (t) => {
    const server = await testServer(t);
    assert.equal(server.connectString, server.addresses[0]);
    const member = { address: server.connectString, role: "standalone", behind: 0 };
    const info = await server.info();
    assert.equal(info.connectString, server.connectString);
    assert.deepEqual(info.members, [member]);

    await server.setReadOnly(true);
    assert.equal((await server.info()).members[0].role, "read-only");
    await server.setReadOnly(false);
    const named = await server.addRule({
        name: "mine",
        operation: "closeSession",
        verdict: { refuse: -112 },
    });
    assert.equal(named.name, "mine");
    await assert.rejects(server.addRule({ name: "mine", verdict: "disconnect" }), {
        code: "bad_request",
    });
    const other = await server.addRule({
        path: "/x/**",
        member: 0,
        times: 2,
        verdict: { refuse: "connectionLoss" },
    });
    assert.match(other.name, /^rule-\d+$/);
    assert.equal(await named.remove(), 0);
    await named[Symbol.asyncDispose]();
    await server.removeRules();
    await assert.rejects(other.hits(), { code: "no_such_rule" });
    await server.restart();
    await server.pause();
    await server.reset();
    assert.deepEqual((await server.info()).members, [member]);

    const journal = await server.journal();
    assert(journal.length >= 3);
    assert(journal.every((entry, place) => entry.atMs >= (journal[place - 1]?.atMs ?? 0)));
    assert(journal.every(({ member }) => member === null));
    assert(journal.some(({ fault }) => fault === "restarted"));
});

test("a cluster elects a named leader", async (t) => {
    const cluster = await testCluster(t, 3);
    assert.equal(cluster.addresses.length, 3);
    const old = (await cluster.info()).leader;
    const next = (old + 1) % 3;
    assert.equal(await cluster.changeLeader(next), next);
    const { members } = await cluster.info();
    assert.deepEqual(
        members.map(({ role }) => role),
        members.map((_, place) => (place === next ? "leader" : "follower")),
    );
    assert.notEqual(await cluster.changeLeader(), next);
    const lag = await cluster.lag((await cluster.info()).leader === 0 ? 1 : 0, { delayMs: 10 });
    await lag[Symbol.asyncDispose]();
    await lag[Symbol.asyncDispose]();
});

test("a leader that is null is not every member", async (t) => {
    const cluster = await testCluster(t, 3);
    await cluster.stop(0);
    await cluster.stop(1);
    await cluster.until({ leader: false });
    const { leader } = await cluster.info();
    assert.equal(leader, null);
    const refused = { code: "bad_request", message: /null/ };
    for (const call of ["stop", "start", "restart", "pause", "resume", "partition", "heal"]) {
        await assert.rejects(cluster[call](leader), { ...refused, call });
    }
    await assert.rejects(cluster.probe(leader), refused);
    await assert.rejects(cluster.changeLeader(leader), refused);
    await assert.rejects(cluster.setReadOnly(true, leader), refused);
    await assert.rejects(cluster.shiftWallClock(1, leader), refused);
    await assert.rejects(cluster.addRule({ verdict: "disconnect", member: leader }), refused);
    const roles = (await cluster.info()).members.map(({ role }) => role);
    assert.deepEqual(roles, ["stopped", "stopped", "looking"]);
});

test("rules without an effect are refused", async (t) => {
    const server = await testServer(t);
    for (const rule of [
        { operation: "create" },
        { verdict: null },
        { verdict: {} },
        { verdict: { delayMs: undefined } },
        { verdict: { delayMs: 1, refuse: "noNode" } },
        { verdict: "disconnect", times: 0 },
        { verdict: "disconnect", under: "/a/*" },
    ]) {
        const refused = { name: "TestServerError", code: "bad_request", call: "add_rule" };
        await assert.rejects(server.addRule(rule), refused, JSON.stringify(rule));
    }
    assert.equal((await server.addRule({ verdict: "disconnect" })).name, "rule-1");
});

test("wrong parameters are refused", async (t) => {
    const server = await testServer(t);
    const cluster = await testCluster(t, 3);
    for (const call of [
        () => server.pause(1),
        () => cluster.stop(3),
        () => cluster.split([0], [7]),
        () => cluster.lag(9),
    ]) {
        await assert.rejects(call, { code: "no_such_member" });
    }
    for (const [call, parameters] of [
        ["expire", {}],
        ["pause", { members: 0 }],
        ["stop", { member: "0" }],
        ["add_rule", { verdict: "explode" }],
        ["add_rule", { operation: "fly", verdict: "disconnect" }],
        ["no_such_call", {}],
    ]) {
        await assert.rejects(server.call(call, parameters), { code: "bad_request" }, call);
    }
    await assert.rejects(server.until({ children: "/a" }), { code: "bad_request" });
    await assert.rejects(server.advance(-1), { code: "bad_request" });
    // The connection is still there.
    await server.info();
});

test("settings of a server", async (t) => {
    await assert.rejects(TestServer.launch({ arguments: ["--no-such-option"] }), {
        code: "not_started",
        message: /no-such-option/,
    });
    const first = await testServer(t, {
        tickTimeMs: 50,
        maxSessionTimeoutMs: 40_000,
        minSessionTimeoutMs: 30_000,
    });
    const taken = Number(first.connectString.split(":").pop());
    await assert.rejects(TestServer.launch({ port: taken }), { code: "not_started" });
    for (const [asked, granted] of [
        [100, 30_000],
        [60_000, 40_000],
    ]) {
        const client = await connect(t, name, first, asked);
        assert.equal((await first.probe()).session(client.session).timeoutMs, granted);
    }
});

test("a server listens at the port that is asked for", async (t) => {
    // Another program can take a port that was free, so others are tried.
    for (let attempt = 1; ; attempt++) {
        const free = createServer().listen(0, "127.0.0.1");
        await once(free, "listening");
        const { port } = free.address();
        free.close();
        await once(free, "close");
        let server;
        try {
            server = await testServer(t, { port, arguments: ["--zookeeper-version", "3.8"] });
        } catch (error) {
            if (error.code !== "not_started" || attempt === 20) {
                throw error;
            }
            continue;
        }
        assert.equal(server.connectString, `127.0.0.1:${port}`);
        const client = await connect(t, name, server, 50_000);
        assert.equal((await server.probe()).session(client.session).timeoutMs, 50_000);
        return;
    }
});
