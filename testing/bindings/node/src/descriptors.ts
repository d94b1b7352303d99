import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";

/** More than the sockets that a test closes while it runs. */
const RESERVED = 64;

/**
 * Occupies the lowest free file descriptors until the returned function is called, so that a socket
 * that is opened until then gets another one.
 *
 * The npm package `zookeeper` still polls the number of a socket after its connection has broken
 * and the socket was closed (seen with 7.3.0). A socket of this process that gets this number next
 * receives no events.
 */
export function reserveDescriptors(): () => void {
    const reserved: number[] = [];
    try {
        while (reserved.length < RESERVED) {
            reserved.push(openSync(devNull, "r"));
        }
    } catch {
        // There are no more descriptors.
        reserved.splice(0).forEach((descriptor) => closeSync(descriptor));
    }
    return () => reserved.splice(0).forEach((descriptor) => closeSync(descriptor));
}
