#!/usr/bin/env python3
"""The host of the firmware: starts it on QEMU's model of a Cortex-M4 board (mps2-an386), and checks what it answers.

usage: host.py [--long]

Whole lines, byte by byte, late answers, garbage, half a message with silence after it, a line of 1 MB, 4000 requests that were
sent before any answer was read; without --long a sixteenth of each. Then it compares what the heap was used for with the budgets that the firmware states; and a
heap with one byte less must not compile. Exits with 3 if there is no emulator.
"""

import json
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
TARGET = "thumbv7em-none-eabihf"
EMULATOR = "qemu-system-arm"
# For each part. The emulator takes a byte at a time, 15 microseconds for each, and some 100 on a busy machine.
DEADLINE_SECONDS = 400
SHARE = 1 if "--long" in sys.argv else 16
READY = {"jsonrpc": "2.0", "method": "ready"}


def cargo(*options):
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")).absolute()
    command = ["cargo", "build", "-q", "--locked", "--release", "--target", TARGET, "--target-dir", str(target_dir), *options]
    return target_dir, subprocess.run(command, cwd=HERE, stderr=subprocess.PIPE, text=True)


def request(id, method, params=None):
    message = {"jsonrpc": "2.0", "method": method, "id": id}
    message = message if params is None else message | {"params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def result(id, value):
    return {"jsonrpc": "2.0", "result": value, "id": id}


def error(id, code):
    return id, code


class Board:
    def __init__(self, program):
        command = [EMULATOR, "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "stdio", "-kernel", str(program)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True).start()
        self.deadline = 0

    def say(self, data, step=None):
        for start in range(0, len(data), step or len(data)):
            self.process.stdin.write(data[start:start + (step or len(data))])
            self.process.stdin.flush()

    def heard(self):
        return json.loads(self.lines.get(timeout=max(self.deadline - time.monotonic(), 0)))

    def expect(self, *wanted):
        """Each line is as it should be; a pair stands for an error with this id and code."""
        for line in wanted:
            got = self.heard()
            is_right = got == line if isinstance(line, dict) else (got.get("id"), got.get("error", {}).get("code")) == line
            if not is_right:
                raise AssertionError(f"wanted {line}\ngot    {got}")

    def expect_after_garbage(self, wanted):
        """As the next line that is no error without an id. The device begins anew if a message takes too long."""
        while (line := self.heard()) == READY or (line.get("id", 0) is None and "error" in line):
            pass
        assert line == wanted, line


def start(board):
    board.expect(READY)


def whole_and_in_bytes(board):
    for step in (None, 1):
        board.say(request(1, "add", {"a": -1, "b": 43}) + request("x", "led", [True]), step)
        board.expect(result(1, 42), result("x", None))
        board.say(request(2, "add", [2**31 - 1, 1]) + request(3, "blink") + request(4, "add", ["1", 2]) + request(5, "measure", [-1]), step)
        board.expect(error(2, 1), error(3, -32601), error(4, -32602), error(5, -32602))
        board.say(b'{"jsonrpc":"2.0","method":"led","params":{"\\u006fn":false}}\n' + request(6, "add", [1, 1]), step)
        board.expect(result(6, 2))


def late(board):
    """What was asked first is answered last, and requests meanwhile at once; a fifth is refused."""
    board.say(request("slow", "measure", {"millis": 500}) + request("quick", "measure", [1]) + request(1, "add", [1, 2]))
    answers = [board.heard() for _ in range(3)]
    assert {answer["id"] for answer in answers} == {"slow", "quick", 1} and answers[2]["id"] == "slow", answers
    times = {answer["id"]: answer["result"] for answer in answers}
    assert times["slow"] - times["quick"] >= 400, times
    board.say(b"".join(request(id, "measure", [300]) for id in range(5)))
    refused = board.heard()
    assert refused["id"] == 4 and "error" in refused, refused
    assert sorted(board.heard()["id"] for _ in range(4)) == [0, 1, 2, 3]


def garbage(board):
    noise = random.Random(49)
    lines = [bytes(noise.randrange(256) for _ in range(noise.randrange(1, 900))) for _ in range(100)]
    lines += [b"[" * 500, b'{"id":"' + b"i" * 400 + b'"}', request("i" * 200, "led", [True])[:-1], b"{" * 511, b"[1]", b"\x00"]
    board.say(b"\n".join(lines) + b"\n" + request(7, "add", [3, 4]))
    board.expect_after_garbage(result(7, 7))


def a_megabyte(board):
    board.say(b"x" * ((1 << 20) // SHARE) + b"\n" + request(8, "add", [4, 4]))
    board.expect_after_garbage(result(8, 8))


def pipelined(board):
    requests = [request(n, "add", [n, n]) if n % 2 else request(f"number {n}", "led", [n % 4 == 0]) for n in range(4000 // SHARE)]
    board.say(b"".join(requests))
    board.expect(*(result(n, 2 * n) if n % 2 else result(f"number {n}", None) for n in range(len(requests))))


def half_and_silence(board):
    board.say(request("never", "measure", [60000]) + b'{"jsonrpc":"2.0","method":"a')
    board.expect(READY)
    board.say(request(9, "add", [4, 5]))
    board.expect(result(9, 9))


def memory(board):
    board.say(request(10, "status"))
    status = board.heard()["result"]
    waste = status["reached"] - status["most_asked"]
    print(f"heap {status['heap']} bytes: at most {status['most_asked']} asked for at once, of which {status['router']} by the router's table;"
          f" rounding and gaps {waste}")
    assert status["router"] <= status["handler_budget"] and waste <= status["allocator_budget"], status


def main():
    target_dir, built = cargo()
    if built.returncode != 0:
        print(built.stderr, file=sys.stderr)
        return 1
    refused = cargo("--features", "too_small")[1]
    if refused.returncode == 0 or "NEEDED_BYTES <= HEAP_BYTES" not in refused.stderr:
        print(f"a heap that is one byte too small compiles\n{refused.stderr}", file=sys.stderr)
        return 1
    if not shutil.which(EMULATOR):
        print(f"SKIPPED: there is no {EMULATOR} to run the firmware")
        return 3
    cargo()
    board = Board(target_dir / TARGET / "release/antiphon-firmware")
    try:
        for part in (start, whole_and_in_bytes, late, garbage, half_and_silence, pipelined, a_megabyte, whole_and_in_bytes, memory):
            began = time.monotonic()
            board.deadline = began + DEADLINE_SECONDS
            try:
                part(board)
            except (AssertionError, ValueError, queue.Empty) as wrong:
                print(f"{part.__name__}: {wrong!r}", file=sys.stderr)
                return 1
            print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        return 0
    finally:
        board.process.kill()
        board.process.wait()


if __name__ == "__main__":
    sys.exit(main())
