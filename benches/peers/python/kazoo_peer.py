"""kazoo's part in the comparison. PROTOCOL.md says what a process is asked and answers."""

import argparse
import gc
import importlib
import json
import os
import sys
import time
import traceback

from talk import expect, say

# The module that has a workload, and the class there. Modules are imported when they are needed, for the start-up.
WORKLOADS = {
    "raw-get": ("raw", "Get"),
    "raw-set": ("raw", "Set"),
    "raw-create-delete": ("raw", "CreateDelete"),
    "mutex": ("locks", "Mutex"),
    "handover": ("locks", "Handover"),
    "read-write": ("locks", "ReadWrite"),
    "semaphore": ("locks", "Semaphore"),
    "leader": ("leaders", "Leader"),
    "double-barrier": ("barriers", "Double"),
    "queue-simple-put": ("queues", "SimplePut"),
    "queue-simple-take": ("queues", "SimpleTake"),
    "queue-priority-put": ("queues", "PriorityPut"),
    "queue-priority-take": ("queues", "PriorityTake"),
    "queue-locking-put": ("queues", "LockingPut"),
    "queue-locking-take": ("queues", "LockingTake"),
    "counter": ("counters", "OfSessions"),
    "counter-tasks": ("counters", "OfTasks"),
    "cache-load": ("caches", "Load"),
    "cache-change": ("caches", "Change"),
    "cache-reconnect": ("caches", "Reconnect"),
    "cache-reconnect-changed": ("caches", "ReconnectChanged"),
    "children-with-data": ("caches", "Children"),
    "typed-modify": ("transactions", "Modify"),
    "stm": ("transactions", "Transfer"),
    "watch-data": ("watches", "Data"),
    "lease": ("leases", "Take"),
    "partition-join": ("partitions", "Join"),
    "partition-leave": ("partitions", "Leave"),
}


class Samples:
    """Latencies of operations: every k-th when there are more than the harness wants. Threads may share it."""

    MOST = 10_000

    def __init__(self, operations):
        self.every = max(1, -(-operations // self.MOST))
        self.seconds = []

    def add(self, latency):
        self.seconds.append(latency)

    def microseconds(self):
        return [round(latency * 1e6, 1) for latency in self.seconds[:: self.every]]


def start_up(options):
    from sessions import Sessions

    with Sessions(options, 1) as sessions:
        sessions[0].get("/")
        say("first")
        expect("end")


def measure(options):
    module, name = WORKLOADS[options.workload]
    workload = getattr(importlib.import_module(module), name)(options)
    with workload.sessions as sessions:
        if options.warmup:
            warmup = workload.prepare(options.path + "/warm-up", options.warmup)
            warmup.run(Samples(options.warmup))
            warmup.close()
        measured = workload.prepare(options.path + "/measured", options.operations)
        # What the warm-up has left is not this round's to collect.
        gc.collect()
        say("ready")
        expect("go")
        samples = Samples(options.operations)
        cpu = time.process_time()
        began = time.perf_counter()
        measured.run(samples)
        seconds = time.perf_counter() - began
        cpu = time.process_time() - cpu
        answer = {
            "operations": measured.operations,
            "seconds": round(seconds, 6),
            "cpu_seconds": round(cpu, 6),
            "latencies_us": samples.microseconds(),
            "check": measured.check(),
        }
        numbers = measured.numbers()
        if numbers:
            answer["numbers"] = numbers
        say(json.dumps(answer, separators=(",", ":")))
        expect("end")
        measured.close()
        sessions.clear(options.path)


def main():
    if sys.argv[1:] == ["--list"]:
        say("\n".join(["startup", *WORKLOADS]))
        return
    parser = argparse.ArgumentParser()
    for name in ("connect", "workload", "path"):
        parser.add_argument("--" + name, required=True)
    for name in ("size", "operations", "warmup", "payload", "session-timeout"):
        parser.add_argument("--" + name, type=int, required=True)
    options = parser.parse_args()
    if options.workload == "startup":
        start_up(options)
    elif options.workload in WORKLOADS:
        measure(options)
    else:
        print("unsupported:", options.workload, file=sys.stderr)
        sys.exit(3)

if __name__ == "__main__":
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    # Threads that wait must not keep the process.
    os._exit(code)
