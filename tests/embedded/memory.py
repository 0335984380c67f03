#!/usr/bin/env python3
"""How much RAM each echo peer uses at most, heap and stack, with messages of up to 1 KiB.

usage: memory.py

Builds echo/ with the feature `measured`, runs it on QEMU's model of a Cortex-M4 board (mps2-an386),
plays a conversation to it over the serial port, compares every reply, and reads the peaks that it
reports: the heap in bytes that were asked for at once, the stack by the words that were ever
overwritten. The input buffer, the connection and its configuration are on the stack. Fails if heap
and stack together are above 8 KiB. Exits with 3 if there is no emulator.
"""

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
TARGET = "thumbv7em-none-eabihf"
EMULATOR = "qemu-system-arm"
MAX_BYTES = 8 * 1024
DEADLINE_SECONDS = 60
END_OF_TRANSMISSION = b"\x04"


def request(params, id="1"):
    return f'{{"jsonrpc":"2.0","method":"echo","params":{params},"id":{id}}}'


def result(params, id="1"):
    return f'{{"jsonrpc":"2.0","result":{params},"id":{id}}}'


def error(code, message, id="null"):
    return f'{{"jsonrpc":"2.0","error":{{"code":{code},"message":"{message}"}},"id":{id}}}'


def conversation(batches):
    """Lines and the line that each is answered with, if any; `batches` says whether the peer takes batches."""
    largest = '["' + "x" * 960 + '"]'
    deep = "[" * 100 + "]" * 100
    numbers = "[" + ",".join(str(n / 4) for n in range(150)) + "]"
    yield request("[1.0]", "1e2"), result("[1.0]", "1e2")
    for params in (largest, deep, numbers):
        yield request(params), result(params)
    yield request("[]", '"' + "i" * 60 + '"'), result("[]", '"' + "i" * 60 + '"')
    yield '{"jsonrpc":"2.0","method":"tell"}', None
    yield '{"method":"echo","jsonrpc":"2.0","id":7}', result("null", "7")
    yield '{"jsonrpc":"2.0","method":"caf\\u00e9","id":8}', result("null", "8")
    yield '{"jsonrpc":"2.0","method":1,"id":9}', error(-32600, "Invalid Request", "9")
    yield "{nope}", error(-32700, "Parse error")
    yield "y" * 3000, error(-32004, "Request too large, limit: 1024")
    items = [request(f"[{n}]", str(n)) for n in range(4)]
    if not batches:
        yield "[" + ",".join(items) + "]", error(-32600, "Invalid Request")
    else:
        yield "[" + ",".join(items) + "]", "[" + ",".join(result(f"[{n}]", str(n)) for n in range(4)) + "]"
        long = ['["' + "z" * 180 + '"]'] * 4
        yield "[" + ",".join(request(p, "5") for p in long) + "]", "[" + ",".join(result(p, "5") for p in long) + "]"
        yield "[" + ",".join(items + items[:1]) + "]", error(-32003, "Batch too large, limit: 4")
        yield "[" + items[0] + ',{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":0}}]', "[" + error(-32001, "Request cancelled", "0") + "]"
    yield '{"jsonrpc":"2.0","result":1,"id":1}', None
    yield request(largest, "2"), result(largest, "2")


def methods():
    """What the peers with three methods are asked."""
    def call(method, params, id):
        return f'{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":{id}}}'

    for number in range(3):
        yield call("add", "[-1,43]", number), result("42", number)
        yield call("led", '{"on":true}', number), result("true", number)
    yield call("led", "{\"\\u006fn\":false}", '"x"'), result("false", '"x"')
    yield call("blink", "[]", "7"), error(-32601, "Method not found", "7")


# The binaries, and what is said to each.
PEERS = [
    ("antiphon-embedded-echo", list(conversation(True))), ("antiphon-embedded-least", list(conversation(False))),
    ("antiphon-embedded-untyped", list(methods())), ("antiphon-embedded-typed", list(methods())),
    ("antiphon-embedded-routed", list(methods())),
]


def build():
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "echo/target")).absolute() / "measured"
    command = ["cargo", "build", "-q", "--locked", "--release", "--features", "measured", "--target", TARGET, "--target-dir", str(target_dir)]
    subprocess.run(command, cwd=HERE / "echo", check=True)
    return target_dir / TARGET / "release"


def play(binary, lines_said):
    """Plays the conversation and returns the report; None if a reply differed or none came."""
    command = [EMULATOR, "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "stdio", "-semihosting", "-kernel", str(binary)]
    board = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in board.stdout] + [lines.put(b"")], daemon=True).start()
    deadline = time.monotonic() + DEADLINE_SECONDS

    def say(data):
        board.stdin.write(data)
        board.stdin.flush()

    def heard():
        return lines.get(timeout=max(deadline - time.monotonic(), 0)).decode().rstrip("\n")

    try:
        for line, wanted in lines_said:
            say(line.encode() + b"\n")
            if wanted is not None and (reply := heard()) != wanted:
                print(f"sent   {line[:200]}\nwanted {wanted}\ngot    {reply}", file=sys.stderr)
                return None
        say(END_OF_TRANSMISSION)
        return heard()
    except queue.Empty:
        print(f"no reply within {DEADLINE_SECONDS} s", file=sys.stderr)
        return None
    finally:
        board.kill()
        board.wait()


def main():
    if not shutil.which(EMULATOR):
        print(f"SKIPPED: there is no {EMULATOR} to run the echo peer")
        return 3
    folder = build()
    verdict = 0
    for peer, said in PEERS:
        report = play(folder / peer, said)
        if report is None:
            return 1
        _, heap, _, taken, _, stack = report.split()
        together = int(heap) + int(stack)
        print(f"{peer}: {len(said)} lines: heap {heap} ({taken} with what the blocks waste) + stack {stack} = {together} bytes of RAM")
        if together > MAX_BYTES:
            print(f"that is more than {MAX_BYTES}", file=sys.stderr)
            verdict = 1
    return verdict


if __name__ == "__main__":
    sys.exit(main())
