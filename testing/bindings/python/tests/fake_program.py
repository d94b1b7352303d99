"""A program that breaks the control protocol, for what no true server does.

Its argument names how: `silent`, `mute`, `garbage`, `wrong_id`, `half_line`, `later`, `no_id` or
`no_fields`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

HELLO = {"version": 1, "server": "9", "kind": "server", "connect_string": "127.0.0.1:1"}
INFO: "dict[str, object]" = {"connect_string": "127.0.0.1:1", "leader": None, "members": []}


def serve(connection: socket.socket, how: str) -> None:
    for line in connection.makefile("rb"):
        request = json.loads(line)
        call, number = request["call"], request["id"]
        if call == "hello":
            assert request["token"] == os.environ["ZK_TEST_SERVER_TOKEN"]
            answer(connection, {"id": number, "ok": {**HELLO, "new_field": 1}})
        elif call == "info":
            answer(connection, {"id": number, "ok": {**INFO, "new_field": 1}})
        elif call == "reset":
            answer(connection, {"id": number, "ok": {}})
        elif how == "mute":
            pass
        elif how == "garbage":
            connection.sendall(b"HTTP/1.1 400 Bad Request\n")
        elif how == "wrong_id":
            answer(connection, {"id": number + 1, "ok": {}})
        elif how == "half_line":
            connection.sendall(b'{"id": ')
            connection.close()
            return
        elif how == "later":
            error = {"code": "too_hot", "message": f"{call}: of a later version"}
            answer(connection, {"id": number, "error": error})
        elif how == "no_id":
            error = {"code": "bad_request", "message": "not JSON"}
            answer(connection, {"id": None, "error": error})
            connection.close()
            return
        elif how == "no_fields":
            answer(connection, {"id": number, "ok": {}})


def answer(connection: socket.socket, message: object) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    how = sys.argv[1]
    if how == "silent":
        sys.stdin.read()
        return
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on 127.0.0.1:1")
    print(f"control on 127.0.0.1:{listener.getsockname()[1]}", flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, how), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


main()
