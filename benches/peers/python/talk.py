"""What is said to the harness, and heard from it."""

import sys


def say(line):
    print(line, flush=True)


def expect(command):
    line = sys.stdin.readline()
    if line != command + "\n":
        raise RuntimeError("expected %s, got %r" % (command, line))
