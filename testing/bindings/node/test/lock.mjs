// A lock with the protocol of Curator's `InterProcessMutex`.
import { randomUUID } from "node:crypto";
import { Code } from "./clients.mjs";

const options = { ephemeral: true, sequential: true };

/** Acquires the lock of a path whose node exists. `createNode` creates the node of a contender. */
export async function acquire(client, path, createNode = createProtected) {
    const node = await createNode(client, path);
    const name = node.slice(path.length + 1);
    for (;;) {
        const children = await client.retry(() => client.children(path));
        children.sort((one, other) => sequence(one) - sequence(other));
        const place = children.indexOf(name);
        if (place < 0) {
            throw new Error(`the node of the lock is gone: ${node}`);
        }
        if (place === 0) {
            return { node, release: () => client.retry(() => client.delete(node)) };
        }
        await client.gone(`${path}/${children[place - 1]}`);
    }
}

function sequence(name) {
    return Number(name.slice(-10));
}

/** Creates a node once, also if replies are lost: its name has an id by which it is found again. */
export async function createProtected(client, path) {
    const id = randomUUID();
    for (;;) {
        try {
            return await client.create(`${path}/_c_${id}-lock-`, "", options);
        } catch (error) {
            if (error.code !== Code.connectionLoss) {
                throw error;
            }
        }
        const found = (await client.retry(() => client.children(path))).find((name) =>
            name.includes(id),
        );
        if (found !== undefined) {
            return `${path}/${found}`;
        }
    }
}

/** Creates a node again after a lost reply: the mistake that the tests have to find. */
export async function createNaively(client, path) {
    return await client.retry(() => client.create(`${path}/lock-`, "", options));
}
