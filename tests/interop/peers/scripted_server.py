"""A stdio server that does what its requests say, rude things included. For proxy and client.

    python3 scripted_server.py lsp|ndjson

It is sequential and written from the specifications alone, with the standard library.
"""

import json
import os
import re
import signal
import sys
import time

FRAMING = sys.argv[1]
CANCEL = ("$/cancelRequest", "id") if FRAMING == "lsp" else ("notifications/cancelled", "requestId")
source, sink = sys.stdin.buffer, sys.stdout.buffer


def read():
    if FRAMING == "ndjson":
        line = source.readline()
        return line.decode() if line else None
    length = None
    while True:
        line = source.readline()
        if not line:
            return None
        if line in (b"\r\n", b"\n"):
            break
        if (found := re.match(rb"(?i)content-length: *(\d+)", line)):
            length = int(found.group(1))
    return source.read(length).decode()


def write(text):
    body = text.encode("utf-8", "surrogatepass")
    if FRAMING == "ndjson":
        sink.write(body + b"\n")
    else:
        sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sink.flush()


def send(**members):
    write(json.dumps({"jsonrpc": "2.0", **members}))


waiting = {}   # our request's id -> the id of the request that it was made for
slow = []      # ids that wait for a cancel


def handle(text):
    message = json.loads(text)
    if isinstance(message, list):
        send(method="saw_batch", params=[len(message)])
        for item in message:
            handle(json.dumps(item))
        return
    method, ident, params = message.get("method"), message.get("id"), message.get("params")
    if method is None:
        owner = waiting.pop(ident, None)
        if owner is None:
            send(method="unmatched", params=[message])
        else:
            outcome = {key: message[key] for key in ("result", "error") if key in message}
            send(id=owner, result=outcome)
    elif method == CANCEL[0]:
        wanted = params[CANCEL[1]]
        send(method="cancel_seen", params={"fits": wanted in slow, "params": params})
        if wanted in slow:
            slow.remove(wanted)
            if FRAMING == "lsp":
                send(id=wanted, error={"code": -32800, "message": "cancelled by request"})
    elif method == "text":      # gives its own text back, as a string
        send(id=ident, result=text)
    elif method == "give":      # answers with exactly the text it was given
        write('{"jsonrpc":"2.0","id":%s,%s}' % (json.dumps(ident), params["members"]))
    elif method == "say":       # sends the lines it was given, then answers
        for line in params["lines"]:
            write(line)
        send(id=ident, result=None)
    elif method == "slow":
        slow.append(ident)
    elif method == "ask":
        waiting[params["id"]] = ident
        send(id=params["id"], method=params["method"], params=params["params"])
    elif method == "ask_and_cancel":
        waiting[params["id"]] = ident
        send(id=params["id"], method="never", params=[])
        send(method=CANCEL[0], params={CANCEL[1]: params["id"]})
        if FRAMING == "ndjson":
            del waiting[params["id"]]
            send(id=ident, result="cancelled")
    elif method == "burst":
        for i in range(params[0]):
            send(method="tick", params=[i])
        send(id=ident, result=params[0])
    elif method == "stderr":
        for _ in range(params[0] // 64):
            sys.stderr.write("x" * 63 + "\n")
        sys.stderr.flush()
        send(id=ident, result=None)
    elif method == "exit":
        sys.exit(params[0])
    elif method == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif method == "half":      # half a message, and gone
        sink.write(b'Content-Length: 100\r\n\r\n{"json' if FRAMING == "lsp" else b'{"json')
        sink.flush()
        os._exit(0)
    elif method == "deaf":      # does not read for a while
        time.sleep(params[0] / 1000)
        send(id=ident, result=None)
    elif method == "stubborn":  # outlives the end of its input
        send(id=ident, result=None)
        while True:
            time.sleep(60)
    elif method == "linger":    # reads its input to the end, and then still speaks
        send(id=ident, result=None)
        while source.read(1 << 16):
            pass
        send(method="last_words", params=[])
        sys.exit(params[0])
    elif ident is not None:
        send(id=ident, result={"method": method, "id": ident, "has_params": "params" in message,
                               "params": params})
    else:
        send(method="seen", params=[method, params])


while (received := read()) is not None:
    if received.strip():
        handle(received)
