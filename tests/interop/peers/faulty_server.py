"""A JSON-RPC 2.0 server that is right, unless it is told to have one fault.

    faulty_server.py stdio|lsp|mcp|http|ws [FAULT]

`stdio` speaks one message a line, `lsp` and `mcp` are these dialects on standard input and output, `http` and `ws` print
their port. It serves `echo`. Each fault is one that servers have had; conform.py says which check has to find it.
"""

import base64
import hashlib
import json
import os
import select
import socket
import struct
import sys
import threading
import time

HUNG = threading.Event()
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""


class Number(str):
    """A number by its text."""


def write(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{write(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


def read(body):
    text = body.decode("utf-8")
    if FAULT == "trailing-taken":
        # Reads the first value alone.
        try:
            return json.JSONDecoder(parse_int=Number, parse_float=Number).raw_decode(text.strip())[0]
        except ValueError:
            pass
    return json.loads(text, parse_int=Number, parse_float=Number)


def error(code, ident=None):
    return {"jsonrpc": "2.0", "error": {"code": Number(code), "message": "m"}, "id": ident}


def end():
    sys.stdout.flush()
    os._exit(1)


def is_id(ident):
    return ident is None or (isinstance(ident, str) and not isinstance(ident, bool))


def invalid_id(ident):
    if isinstance(ident, bool):
        return FAULT != "bool-id-taken"
    if isinstance(ident, (dict, list)):
        return FAULT != "object-id-taken"
    return not is_id(ident)


def answer_id(ident):
    """The id as this server gives it back."""
    if isinstance(ident, Number):
        if FAULT == "fraction-cut" and "." in ident and float(ident) != int(float(ident)):
            return Number(int(float(ident)))
        if FAULT == "big-as-float" and len(ident) > 15:
            return Number(repr(float(ident)))
        if FAULT == "id-rewritten" and ("." in ident or "e" in ident):
            return Number(repr(float(ident)).removesuffix(".0"))
    return ident


def one(message, raw, in_batch):
    """The answer to one message; None for nothing."""
    if not isinstance(message, dict):
        return error(-32600)
    if "method" not in message and ("result" in message or "error" in message):
        return error(-32600) if FAULT == "response-answered" else None
    has_id, ident = "id" in message, message.get("id")
    if has_id and invalid_id(ident):
        return error(-32600)
    if has_id and ident is None and FAULT == "null-id-unanswered":
        return None
    own = answer_id(ident)
    version = message.get("jsonrpc", ...)
    if version is ... and FAULT != "version-absent-taken" or version is not ... and (
            not isinstance(version, str) or isinstance(version, Number) or version != "2.0") and FAULT != "version-wrong-taken":
        return error(-32600, own)
    method, params = message.get("method", ...), message.get("params", ...)
    if method is ...:
        return error(-32601 if FAULT == "method-missing-taken" else -32600, own)
    if not isinstance(method, str) or isinstance(method, Number):
        return error(-32601 if FAULT == "method-not-string-taken" else -32600, own)
    if params is not ... and not isinstance(params, (dict, list)):
        if FAULT == "params-scalar-unanswered" and params is not None or FAULT == "params-null-unanswered" and params is None:
            return None
        return error(-32600, own)
    if FAULT == "unknown-member-refused" and set(message) - {"jsonrpc", "method", "params", "id"}:
        return error(-32600, own)
    if not has_id:
        told = method == "echo" and (params is ... or isinstance(params, list))
        failed = method == "echo" and not told
        if FAULT == "notification-answered" and told or FAULT == "notification-error-answered" and failed:
            return error(-32000)
        if FAULT == "unknown-notification-answered" and method != "echo" and not in_batch:
            return error(-32601)
        return None
    if FAULT == "string-id-unanswered" and isinstance(ident, str) and not isinstance(ident, Number) and ident in ("", "1", "null"):
        return None
    if FAULT == "negative-unanswered" and isinstance(ident, Number) and ident.startswith("-") and "." not in ident:
        return None
    if FAULT == "params-empty-unanswered" and params == {}:
        return None
    if FAULT == "size-unanswered" and len(raw) > 500_000:
        return None
    given = write(params) if params is not ... else ""
    if FAULT == "exponent-id-unanswered" and ident == "1e0":
        return None
    if FAULT == "empty-name-ends" and '"":' in given:
        end()
    if FAULT == "wide-text-unanswered" and "\\ud83d" in given:
        return None
    if FAULT == "three-params-internal" and isinstance(params, list) and len(params) == 3:
        return error(-32603, own)
    if FAULT == "null-param-unanswered" and isinstance(params, dict) and None in params.values():
        return None
    if method == "echo":
        return {"jsonrpc": "2.0", "result": None if params is ... else params, "id": own}
    if FAULT == "reserved-invalid" and method.startswith("rpc."):
        return error(-32600, own)
    if FAULT == "own-id-lost" and method.startswith("rpc."):
        return error(-32601, Number(0))
    if FAULT == "dollar-unanswered" and method.startswith("$/"):
        return None
    if method == "initialize":
        return {"jsonrpc": "2.0", "result": {}, "id": own}
    if FAULT == "one-outcome-both":
        return {**error(-32601, own), "result": None}
    if FAULT == "shape-no-version":
        return {"error": {"code": Number(-32601), "message": "m"}, "id": own}
    if FAULT == "shape-code-text":
        return {"jsonrpc": "2.0", "error": {"code": "-32601", "message": "m"}, "id": own}
    return error(-32603 if FAULT == "unknown-method-internal" else -32601, own)


def batch(items, raw):
    if not items:
        return [] if FAULT == "batch-empty-array" else error(-32600)
    bad = [item for item in items if not isinstance(item, dict) or "method" not in item]
    if FAULT == "null-element-ends" and items == [None]:
        end()
    if FAULT == "nested-unanswered" and isinstance(items[0], list):
        return None
    if FAULT == "invalid-element-alone" and len(items) == 1 and bad and items[0] is not None and not isinstance(items[0], list):
        return error(-32600)
    if FAULT == "all-invalid-once" and len(items) > 1 and len(bad) == len(items):
        return [error(-32600)]
    if FAULT == "mixed-refused" and bad and len(bad) < len(items):
        return error(-32600)
    if FAULT == "five-cut" and len(items) == 5:
        items = items[:4]
    if FAULT == "long-cut":
        items = items[:100]
    answers = [answer for answer in (one(item, raw, True) for item in items) if answer is not None]
    if FAULT == "same-id-merged":
        answers = list({write(answer): answer for answer in answers if answer["id"] is not None}.values()) + [
            answer for answer in answers if answer["id"] is None]
    if not answers:
        return [] if FAULT == "batch-notifications-array" else None
    return answers


def serve(body):
    """The replies to a message, as bytes."""
    if FAULT == "oversize-ends" and len(body) > 2_000_000:
        end()
    if FAULT == "oversize-hangs":
        if len(body) > 2_000_000:
            HUNG.set()
        if HUNG.is_set():
            threading.Event().wait()
    if FAULT == "garbage-ends" and b"\x01" in body:
        end()
    if FAULT == "depth-ends" and body.count(b"[") > 50_000:
        end()
    if FAULT == "params-depth-ends" and 5000 < body.count(b"[") < 50_000:
        end()
    if FAULT == "surrogate-ends" and b"\\ud800" in body:
        end()
    if FAULT == "duplicate-ends" and body.count(b'"id":') == 2 and not body.startswith(b"["):
        end()
    try:
        message = read(body)
    except UnicodeDecodeError:
        return [] if FAULT == "utf8-unanswered" else [write(error(-32700)).encode()]
    except (ValueError, RecursionError):
        if FAULT == "syntax-ends":
            end()
        return [write(error(-32600 if FAULT == "syntax-invalid" else -32700)).encode()]
    answer = batch(message, body) if isinstance(message, list) else one(message, body, False)
    if answer is None:
        return []
    text = write(answer).encode()
    is_twice = FAULT == "answered-twice" and isinstance(message, dict) and message.get("params") == {} and "id" in message
    return [text, text] if is_twice else [text]


def is_array(body):
    try:
        return isinstance(read(body), list)
    except (ValueError, RecursionError):
        return False


def under_load(lines):
    """What a server reads of many lines at once, if it cannot bear them."""
    if FAULT == "lost-under-load":
        return lines[:-1]
    if FAULT == "twice-under-load":
        return [*lines, lines[0]]
    # The params of two requests are exchanged.
    one, other = (read(line) for line in lines[:2])
    one["params"], other["params"] = other["params"], one["params"]
    return [write(one).encode(), write(other).encode(), *lines[2:]]


def over_lines(is_mcp):
    pending = b""
    while True:
        piece = os.read(0, 1 << 16)
        if not piece:
            return
        if FAULT == "eof-forgets":
            readable, _, _ = select.select([0], [], [], 0.1)
            if readable and not (more := os.read(0, 1 << 16)):
                return
            piece += more if readable else b""
        if FAULT == "split-lost" and not piece.endswith(b"\n"):
            pending = b""
            continue
        while FAULT == "half-characters-lost" and piece and piece[-1] >= 0x80:
            piece = piece[:-1]
        *lines, pending = (pending + piece).split(b"\n")
        if FAULT == "second-lost" and len(lines) == 2 and b"still-there" not in piece:
            lines = lines[:1]
        if len(lines) > 20 and FAULT.endswith("under-load"):
            lines = under_load(lines)
        for line in lines[:2] if FAULT == "third-lost" else lines:
            if FAULT == "crlf-refused" and line.endswith(b"\r"):
                os.write(1, write(error(-32700)).encode() + b"\n")
                continue
            if not line.strip():
                if FAULT == "empty-ends":
                    end()
                continue
            if is_mcp and is_array(line) and FAULT != "batch-taken":
                os.write(1, write(error(-32600)).encode() + b"\n")
                continue
            if FAULT == "cancel-answered" and b"cancelled" in line:
                os.write(1, write(error(-32601)).encode() + b"\n")
            for reply in serve(line):
                os.write(1, reply + b"\n")


def over_lsp():
    data = b""
    is_ready = FAULT == "early-taken"
    while piece := os.read(0, 1 << 16):
        data += piece
        while b"\r\n\r\n" in data:
            head, rest = data.split(b"\r\n\r\n", 1)
            name, _, length = head.partition(b":")
            is_bad = FAULT == "case-refused" and name != b"Content-Length" or FAULT == "blank-needed" and not length.startswith(b" ")
            length = int(length)
            if FAULT == "length-in-characters":
                if len(rest.decode("utf-8", "replace")) < length:
                    break
                length = len(rest.decode("utf-8", "replace")[:length].encode())
            if len(rest) < length:
                break
            body, data = rest[:length], rest[length:]
            if is_bad:
                continue
            cancels = b"$/cancelRequest" in body
            if FAULT == "cancelled-unanswered" and (cancels or b"$/cancelRequest" in data):
                continue
            if b'"initialize"' in body:
                is_ready = True
            replies = serve(body) if is_ready else [write(error(-32002, Number(1))).encode()]
            for reply in replies:
                os.write(1, b"Content-Length: %d\r\n\r\n%s" % (len(reply), reply))


class Ended(Exception):
    """The other side has ended."""


class Stream:
    """Bytes of a socket."""

    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def more(self):
        piece = self.connection.recv(1 << 16)
        if not piece:
            raise Ended
        self.data += piece

    def until(self, mark):
        while mark not in self.data:
            self.more()
        found, self.data = self.data.split(mark, 1)
        return found

    def exactly(self, length):
        while len(self.data) < length:
            self.more()
        found, self.data = self.data[:length], self.data[length:]
        return found


def fields(head):
    lines = head.decode("latin-1").split("\r\n")
    return lines[0], [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]


def over_http(connection):
    stream, count = Stream(connection), 0

    def reply(status, body=b"", close=False):
        end_line = b"Connection: close\r\n" if close else b""
        connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), end_line, body))
        if FAULT == "reset-ends":
            # A client that has gone resets the connection.
            time.sleep(0.02)
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                end()

    while True:
        line, all_fields = fields(stream.until(b"\r\n\r\n"))
        count += 1
        given = dict(all_fields)
        lengths = {value for name, value in all_fields if name == "content-length"}
        is_chunked = "chunked" in given.get("transfer-encoding", "")
        if not line.startswith("POST"):
            reply(500 if FAULT == "get-fails" else 405)
            continue
        if len(lengths) > 1 and FAULT != "two-lengths-taken":
            return reply(400, close=True)
        if is_chunked:
            body = b""
            while size := int(stream.until(b"\r\n"), 16):
                body += stream.exactly(size)
                stream.until(b"\r\n")
            stream.until(b"\r\n")
        else:
            body = stream.exactly(int([value for name, value in all_fields if name == "content-length"][0]))
        kind = given.get("content-type", "")
        if FAULT == "type-exact" and kind != "application/json" and "text" not in kind:
            reply(415)
        elif not kind.lower().startswith("application/json") and FAULT != "text-taken":
            reply(415)
        elif "invalid" in given.get("host", "") and FAULT != "rebinding-taken":
            reply(403)
        elif FAULT == "second-forgotten" and count > 1:
            return None
        else:
            replies = serve(body)
            if replies:
                reply(200, replies[0], close=bool(lengths and is_chunked) and FAULT != "chunked-stays-open")
            else:
                is_told = b'"id"' not in body and body.startswith(b"{")
                reply(500 if FAULT == "no-reply-fails" and is_told else 204)
            if lengths and is_chunked and FAULT != "chunked-stays-open" or given.get("connection") == "close":
                return None


def frame(opcode, payload):
    size = len(payload)
    head = bytes([0x80 | opcode, size]) if size < 126 else struct.pack("!BBH", 0x80 | opcode, 126, size) if size < 65536 else (
        struct.pack("!BBQ", 0x80 | opcode, 127, size))
    return head + payload


def over_websocket(connection):
    stream = Stream(connection)
    _, all_fields = fields(stream.until(b"\r\n\r\n"))
    key = dict(all_fields)["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key).digest())
    connection.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    message = b""
    while True:
        first, second = stream.exactly(2)
        size = second & 127
        size = struct.unpack("!H", stream.exactly(2))[0] if size == 126 else struct.unpack("!Q", stream.exactly(8))[0] if size == 127 else size
        mask = stream.exactly(4)
        payload = stream.exactly(size)
        if any(mask):
            payload = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
        opcode = first & 15
        if opcode == 8:
            return None if FAULT == "close-unanswered" else connection.sendall(frame(8, payload))
        if opcode == 9:
            if FAULT != "ping-unanswered":
                connection.sendall(frame(10, payload))
            continue
        if opcode == 2 and FAULT == "binary-ignored":
            continue
        if FAULT == "fragments-lost" and not (opcode and first & 128):
            continue
        message += payload
        if not first & 128:
            continue
        try:
            message.decode("utf-8")
        except UnicodeDecodeError:
            if FAULT != "broken-text-taken":
                return connection.sendall(frame(8, b"\x03\xef"))
        for reply in serve(message):
            connection.sendall(frame(1, reply))
        message = b""


def listen(talk):
    def run(connection):
        with connection:
            try:
                talk(connection)
            except (Ended, OSError):
                pass

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        if FAULT == "one-at-a-time":
            run(connection)
        else:
            threading.Thread(target=run, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    sys.setrecursionlimit(3000)
    {
        "stdio": lambda: over_lines(False),
        "mcp": lambda: over_lines(True),
        "lsp": over_lsp,
        "http": lambda: listen(over_http),
        "ws": lambda: listen(over_websocket),
    }[sys.argv[1]]()
