#!/usr/bin/env node
// Runs the program of this package: `npx zk-test-server --help`.
import { spawn } from "node:child_process";

import { findBinary } from "./binary";

try {
    const child = spawn(findBinary(), process.argv.slice(2), { stdio: "inherit" });
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
        process.on(signal, () => child.kill(signal));
    }
    child.on("error", fail);
    child.on("exit", (code) => process.exit(code ?? 1));
} catch (error) {
    fail(error as Error);
}

function fail(error: Error): never {
    console.error(`zk-test-server: ${error.message}`);
    process.exit(2);
}
