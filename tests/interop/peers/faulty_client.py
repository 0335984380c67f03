"""A JSON-RPC 2.0 client that is right, unless it is told to have one fault. It makes one call after another, and passes on in the
params of each what the one before has brought.

    faulty_client.py LOOPS FAULT URL|stdio

LOOPS is how many calls it makes at once, URL begins with tcp://, ws:// or http://. Each fault is one that clients have had; conform.py
says which check has to find it.
"""

import base64
import json
import os
import socket
import struct
import sys
import time
import urllib.request
from urllib.parse import urlsplit

LOOPS, FAULT, URL = int(sys.argv[1]), sys.argv[2], sys.argv[3]
# After so many seconds a call has failed.
TIMEOUT = 2.0


class Over(Exception):
    """The client ends."""


class Calls:
    """The calls that are open, and what is done with answers."""

    def __init__(self, send):
        self.send, self.next_id = send, 0
        # By id: the loop, and when it began.
        self.open, self.given_up, self.done = {}, {}, set()

    def begin(self, loop, brought):
        self.next_id += 1
        self.open[self.next_id] = loop, time.monotonic()
        if FAULT == "batches-too":
            # No fault: a batch, whose answer it does not wait for.
            self.send(b'[{"jsonrpc":"2.0","method":"next"},{"jsonrpc":"2.0","method":"next","id":"b"}]')
        self.send(json.dumps({"jsonrpc": "2.0", "method": "next", "params": [brought, loop], "id": self.next_id}).encode())

    def time_out(self):
        for ident, (loop, began) in list(self.open.items()):
            if time.monotonic() - began > TIMEOUT:
                del self.open[ident]
                self.given_up[ident] = loop
                self.begin(loop, None)

    def end(self, ident, brought):
        loop, _ = self.open.pop(ident)
        self.done.add(ident)
        self.begin(loop, brought)

    def handle(self, text):
        try:
            message = json.loads(text, parse_int=float if FAULT == "integers-as-floats" else int)
        except ValueError:
            if FAULT == "garbage-ends":
                raise Over from None
            return
        if isinstance(message, dict):
            return self.asked(message) if "method" in message else self.answered(message)

    def asked(self, message):
        if "id" not in message:
            if FAULT == "notification-answered":
                self.send(b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"},"id":null}')
            return
        if FAULT == "called-back-ends":
            raise Over
        ident = message["id"]
        if FAULT == "called-back-id-lost" and isinstance(ident, str):
            ident = None
        if FAULT == "called-back-id-as-float" and not isinstance(ident, str):
            ident = float(ident) // 1024 * 1024
        self.send(json.dumps({"jsonrpc": "2.0", "error": {"code": -32601, "message": "m"}, "id": ident}).encode())

    def answered(self, message):
        ident = message.get("id")
        if isinstance(ident, float):
            ident = int(ident)
        if ident is None and FAULT == "null-id-ends":
            raise Over
        if ident in self.given_up and self.open and FAULT == "late-taken":
            return self.end(next(iter(self.open)), message.get("result"))
        if ident in self.given_up and FAULT == "late-ends" or ident in self.done and FAULT == "twice-ends":
            raise Over
        if ident not in self.open:
            is_unknown = ident is not None and ident not in self.given_up and ident not in self.done
            if is_unknown and FAULT == "unknown-ends":
                raise Over
            if is_unknown and FAULT == "unknown-taken" and self.open:
                self.end(next(iter(self.open)), message.get("result"))
            return
        if FAULT == "order-assumed":
            ident = next(iter(self.open))
        is_right = message.get("jsonrpc") == "2.0" or FAULT == "version-taken"
        has_both = "result" in message and "error" in message and FAULT != "both-taken"
        self.end(ident, message.get("result") if is_right and not has_both else None)


class Stream:
    """Lines over a socket or over standard input and output."""

    def __init__(self, host):
        self.data = b""
        self.socket = socket.create_connection(host) if host else None
        self.source, self.sink = (self.socket.fileno(), self.socket.fileno()) if host else (0, 1)
        os.set_blocking(self.source, False)

    def send(self, text):
        self.write(text + b"\n")

    def write(self, data):
        while data:
            try:
                data = data[os.write(self.sink, data):]
            except BlockingIOError:
                time.sleep(0.001)

    def read(self):
        try:
            piece = os.read(self.source, 1 << 16)
        except BlockingIOError:
            return b""
        if not piece:
            raise Over
        return piece

    def texts(self):
        piece = self.read()
        if FAULT == "split-lost":
            return piece.split(b"\n")[:-1]
        *lines, self.data = (self.data + piece).split(b"\n")
        return lines


class WebSocket(Stream):
    def __init__(self, host):
        super().__init__(host)
        self.parts = b""
        self.write(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   b"Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)) + b"\r\n\r\n")
        while b"\r\n\r\n" not in self.data:
            self.data += self.read()
        self.data = self.data.partition(b"\r\n\r\n")[2]

    def send(self, text):
        size = len(text)
        head = bytes([0x81, 0x80 | size]) if size < 126 else struct.pack("!BBH", 0x81, 0xfe, size)
        self.write(head + b"\x01\x02\x03\x04" + bytes(byte ^ (1, 2, 3, 4)[place % 4] for place, byte in enumerate(text)))

    def texts(self):
        self.data += self.read()
        found = []
        while len(self.data) > 1 and (size := self.data[1]) < 126 and len(self.data) >= size + 2:
            first, text, self.data = self.data[0], self.data[2:size + 2], self.data[size + 2:]
            if first & 15 == 8:
                raise Over
            self.parts += text
            if first & 128:
                found.append(self.parts)
                self.parts = b""
        return found


def over_http():
    waiting = []
    calls = Calls(waiting.append)
    calls.begin("a", None)
    while True:
        request = urllib.request.Request(URL, waiting.pop(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                calls.handle(reply.read())
        except OSError:
            pass
        # A reply that is no answer to its call fails it.
        for ident in [] if waiting else list(calls.open):
            calls.end(ident, None)


def main():
    address = urlsplit(URL)
    if address.scheme == "http":
        return over_http()
    host = (address.hostname, address.port) if address.hostname else None
    stream = WebSocket(host) if address.scheme == "ws" else Stream(host)
    calls = Calls(stream.send)
    for loop in "abcd"[:LOOPS]:
        calls.begin(loop, None)
    while True:
        for text in stream.texts():
            calls.handle(text)
        calls.time_out()
        time.sleep(0.002)


if __name__ == "__main__":
    try:
        main()
    except (Over, OSError):
        pass
