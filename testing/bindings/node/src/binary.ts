import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";

import { TestServerError } from "./error";

const SUFFIX = process.platform === "win32" ? ".exe" : "";

/**
 * Returns the path of the program `zk-test-server`: of the environment variable
 * `ZK_TEST_SERVER_BIN`, of the package for this platform, or in `PATH`, in this order.
 *
 * Fails with `no_binary` if there is none.
 */
export function findBinary(): string {
    const named = process.env["ZK_TEST_SERVER_BIN"];
    if (named) {
        if (!isProgram(named)) {
            throw new TestServerError(
                "no_binary",
                "launch",
                `ZK_TEST_SERVER_BIN is not a program: ${named}`,
            );
        }
        return named;
    }
    const found = packaged() ?? inPath();
    if (found === undefined) {
        const text =
            `zk-test-server is neither in the package ${platformPackage()} nor in PATH; ` +
            "set ZK_TEST_SERVER_BIN to the path of the program";
        throw new TestServerError("no_binary", "launch", text);
    }
    return found;
}

function platformPackage(): string {
    return `@zk-curator/test-server-${process.platform}-${process.arch}`;
}

function packaged(): string | undefined {
    try {
        return require.resolve(`${platformPackage()}/bin/zk-test-server${SUFFIX}`);
    } catch {
        return undefined;
    }
}

function inPath(): string | undefined {
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
        const candidate = join(folder, `zk-test-server${SUFFIX}`);
        // npm puts the command of this package into PATH. It would start itself without end.
        if (
            folder !== "" &&
            isProgram(candidate) &&
            !/[\\/]cli\.js$/.test(realpathSync(candidate))
        ) {
            return candidate;
        }
    }
    return undefined;
}

function isProgram(path: string): boolean {
    try {
        accessSync(path, constants.X_OK);
        return statSync(path).isFile();
    } catch {
        return false;
    }
}
