// The package in a program with CommonJS.
const assert = require("node:assert/strict");
const { test } = require("node:test");
const { testServer, TestServerError } = require("zk-test-server");

test("the package can be required", async (t) => {
    const server = await testServer(t);
    await assert.rejects(server.expire(1n), TestServerError);
    // Both kinds of modules have the same classes.
    assert.equal((await import("zk-test-server")).TestServerError, TestServerError);
});
