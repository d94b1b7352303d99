"""kazoo's Counter, told on standard input what to do.

Argument: HOST:PORT. Commands, one a line, each answered with one line: `KIND get PATH`, `KIND add PATH NUMBER`, which answers
"before after", and `KIND increment PATH TIMES`, which answers "ok". KIND is `int`, `float`, or `curator` for support_curator=True.
Ends with its standard input.
"""

import sys

from kazoo.client import KazooClient

zk = KazooClient(hosts=sys.argv[1], timeout=10)
zk.start(timeout=30)
for line in sys.stdin:
    kind, command, path, *rest = line.split()
    number = float if kind == "float" else int
    counter = zk.Counter(path, default=number(0), support_curator=kind == "curator")
    if command == "get":
        print(counter.value, flush=True)
    elif command == "add":
        counter += number(rest[0])
        print(counter.pre_value, counter.post_value, flush=True)
    elif command == "increment":
        for _ in range(int(rest[0])):
            counter += 1
        print("ok", flush=True)
    else:
        sys.exit("no such command: " + line)
zk.stop()
