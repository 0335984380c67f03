#!/usr/bin/env python3
"""Runs a program and keeps what goes over its standard input and output.

    record.py FOLDER PROGRAM [ARGUMENT…]

Writes FOLDER/N.in and FOLDER/N.out, byte for byte, where N is the id of its own process; ends as the
program does. With ANTIPHON_RECORD=FOLDER the cases put it between the two sides of what they run over pipes.
"""

import os
import pathlib
import subprocess
import sys
import threading


def between(command):
    """The command, with this program before it if a recording is asked for."""
    folder = os.environ.get("ANTIPHON_RECORD")
    return [sys.executable, __file__, folder, *command] if folder else command


def pump(source, sink, path):
    """Passes on what comes, as it comes, and keeps it."""
    with open(path, "wb") as kept:
        while data := os.read(source, 1 << 16):
            kept.write(data)
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(sink, view):]
            except BrokenPipeError:
                break
    os.close(sink)


def main(words):
    folder = pathlib.Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(words[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    into = os.dup(child.stdin.fileno())
    child.stdin.close()
    name = folder / str(os.getpid())
    # The input may stay open after the child has ended.
    threading.Thread(target=pump, args=(0, into, f"{name}.in"), daemon=True).start()
    pump(child.stdout.fileno(), os.dup(1), f"{name}.out")
    os.close(1)
    code = child.wait()
    # As a shell says it of a program that a signal ended.
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
