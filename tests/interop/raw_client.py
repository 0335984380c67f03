"""The client's contract: its operations, against antiphon's server and against scripted peers."""

import json
import queue
import socket
import sys
import threading
import time

from raw_server import FORMS, Server
from record import between
from suite import HERE, PEER, RUNTIME, case
from wire import PATIENCE, Process, Timeout, accepted_wire, run_once

SCRIPTED = [sys.executable, HERE / "peers" / "scripted_server.py"]


class Client:
    """A running `antiphon-peer client`: one operation in, one answer out."""

    def __init__(self, *words, options=(), env=None):
        if words[0].startswith("stdio:"):
            framing, program = words[0].split(":", 2)[1:]
            program, *rest = between([program, *words[1:]])
            words = (f"stdio:{framing}:{program}", *rest)
        self.process = Process([PEER, *RUNTIME, *options, "client", *words], env=env)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        held = b""
        while (data := self.process.process.stdout.read(1 << 16)):
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                self.lines.put(line.decode())
        self.lines.put(None)

    def send(self, operation):
        text = operation if isinstance(operation, str) else json.dumps(operation)
        view = memoryview(text.encode() + b"\n")
        while view:
            view = view[self.process.process.stdin.write(view):]

    def text(self, timeout=PATIENCE):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise Timeout(f"no answer within {timeout} s") from None
        assert line is not None, f"the client ended: {self.process.stderr_lines}"
        return line

    def do(self, op, timeout=PATIENCE, **members):
        self.send({"op": op, **members})
        return json.loads(self.text(timeout))

    def call(self, method, params=None, timeout=PATIENCE, **members):
        if params is not None:
            members["params"] = params
        return self.do("call", timeout, method=method, **members)

    def end(self):
        self.process.process.stdin.close()
        return self.process.wait()


def target_of(form):
    """Words that reach antiphon's own server, and the server if it has to be kept."""
    if form.startswith("stdio:"):
        return [f"{form}:{PEER}", "server", form], None
    server = Server(form)
    if form == "unix":
        return [f"unix:{server.address}"], server
    host, port = server.address
    return [f"{form}://{host}:{port}"], server


# CLI-13 CLI-20
@case("client {form}: every operation, against antiphon's server", forms=FORMS)
def operations(form):
    words, _server = target_of(form)
    client = Client(*words)
    assert client.call("subtract", [42, 23]) == {"result": 19}
    assert client.call("echo") == {"result": None}
    assert client.call("nope") == {"error": {"code": -32601, "message": "Method not found"}}
    error = {"code": 5, "message": "m", "data": None}
    assert client.call("fail", error) == {"error": error}
    client.send('{"op":"call","method":"echo","params":{"b":1.0,"a":[1e2,18446744073709551616]}}')
    assert client.text() == '{"result":{"b":1.0,"a":[1e2,18446744073709551616]}}'
    assert client.do("notify", method="update", params=[1]) == {"ok": True}
    assert client.call("count") == {"result": 1}
    assert client.do("batch", items=[
        {"method": "sleep", "params": [60]}, {"method": "update", "notify": True},
        {"method": "nope"}, {"method": "sum", "params": [1, 2]}, {"method": "count"},
    ]) == {"batch": [{"result": "slept"},
                     {"error": {"code": -32601, "message": "Method not found"}},
                     {"result": 3}, {"result": 2}]}
    assert client.do("batch", items=[{"method": "update", "notify": True}]) == {"batch": []}
    assert client.call("emit", [3]) == {"result": 3}
    for _ in range(3):
        assert "notification" in client.do("wait", method="tick", timeout_ms=1000)
    assert client.do("wait", method="tick", timeout_ms=30) == {"timeout": True}
    assert client.call("callback", ["where", [1]])["error"]["code"] == -32601
    assert client.do("answer", method="where", result={"x": [1.0]}) == {"ok": True}
    client.send('{"op":"call","method":"callback","params":["where",[1]]}')
    assert client.text() == '{"result":{"x": [1.0]}}'
    assert client.do("asked", method="where", timeout_ms=0) == {"asked": 2}
    assert client.call("eth_subscribe", ["newHeads"]) == {"result": "0x51"}
    for number in ("0x11", "0x12", "0x13"):
        event = client.do("wait", method="eth_subscription", timeout_ms=2000)["notification"]
        assert event["result"]["number"] == number, event
    assert client.call("sleep", [300], timeout_ms=50) == {"timeout": True}
    assert client.call("get_data") == {"result": ["hello", 5]}
    assert client.end() == 0


@case("client {form}: 1 MiB of text that is not ASCII, and 2000 calls in one batch", forms=FORMS)
def large(form):
    words, _server = target_of(form)
    client = Client(*words)
    text = "€😀ü" * (MIB_OF_TEXT // 9)
    assert client.call("echo", [text], 20) == {"result": [text]}
    items = [{"method": "echo", "params": [i]} for i in range(2000)]
    assert client.do("batch", 20, items=items) == {"batch": [{"result": [i]} for i in range(2000)]}
    assert client.end() == 0


# In bytes; `€😀ü` has nine.
MIB_OF_TEXT = 1 << 20


@case("client: a line that makes no sense costs one answer and nothing else")
def senseless():
    client = Client(f"stdio:ndjson:{PEER}", "server", "stdio:ndjson")
    for line in ("{", "[]", "1", "{}", '{"op":"fly"}', '{"op":"call"}', '{"op":"wait"}',
                 '{"op":"batch"}', '{"op":"batch","items":[{}]}', '{"op":7,"method":"x"}',
                 '{"op":"notify","method":7}'):
        client.send(line)
        answer = json.loads(client.text())
        assert list(answer) == ["error_line"], (line, answer)
    for line in ('{"op":"call","method":" "}', '{"op":"call","method":"x","params":7}',
                 '{"op":"batch","items":[]}'):
        client.send(line)
        answer = json.loads(client.text())
        assert list(answer) == ["refused"], (line, answer)
    client.send("")
    assert client.call("get_data") == {"result": ["hello", 5]}
    assert client.end() == 0


@case("client: a dead transport is told at that and every later operation")
def dead():
    client = Client(f"stdio:lsp:{sys.executable}", str(SCRIPTED[1]), "lsp")
    assert "result" in client.call("plain")
    answer = client.call("exit", [3])
    assert "exit status: 3" in answer["closed"], answer
    for op, members in (("call", {"method": "x"}), ("notify", {"method": "x"}),
                        ("wait", {"method": "x", "timeout_ms": 5000}),
                        ("batch", {"items": [{"method": "x"}]}),
                        ("answer", {"method": "x", "result": 1})):
        begin = time.monotonic()
        answer = client.do(op, **members)
        assert list(answer) == ["closed"] and answer["closed"], (op, answer)
        assert time.monotonic() - begin < 1
    assert client.end() == 0


@case("client: what was told before the end can still be waited for")
def last_words():
    client = Client(f"stdio:ndjson:{sys.executable}", str(SCRIPTED[1]), "ndjson")
    assert client.call("burst", [5]) == {"result": 5}
    assert "closed" in client.call("die")
    for i in range(5):
        assert client.do("wait", method="tick", timeout_ms=500) == {"notification": [i]}
    assert "closed" in client.do("wait", method="tick", timeout_ms=500)


# CAN-03 CAN-04
@case("client: cancel_after_ms gives a call up as the dialect says")
def cancels():
    client = Client(f"stdio:lsp:{sys.executable}", str(SCRIPTED[1]), "lsp",
                    options=("--preset", "lsp"))
    assert client.call("slow", cancel_after_ms=50) == {
        "error": {"code": -32800, "message": "cancelled by request"}}
    assert client.do("wait", method="cancel_seen", timeout_ms=1000)["notification"]["fits"] is True
    client.end()
    client = Client(f"stdio:ndjson:{sys.executable}", str(SCRIPTED[1]), "ndjson",
                    options=("--preset", "mcp"))
    assert client.call("slow", cancel_after_ms=50) == {"cancelled": True}
    assert client.do("wait", method="cancel_seen", timeout_ms=1000)["notification"]["fits"] is True
    client.end()


@case("client: a peer's garbage, unmatched and invalid answers harm no neighbour")
def rude_peer():
    client = Client(f"stdio:ndjson:{sys.executable}", str(SCRIPTED[1]), "ndjson")
    lines = ["{nonsense", '{"jsonrpc":"2.0","id":77,"result":1}', '{"jsonrpc":"2.0"}', "[]",
             '{"jsonrpc":"2.0","method":"told","params":[1.0]}']
    assert client.call("say", {"lines": lines}) == {"result": None}
    client.send('{"op":"wait","method":"told","timeout_ms":1000}')
    assert client.text() == '{"notification":[1.0]}'
    assert "invalid" in client.call("give", {"members": '"result":1,"error":{"code":1,"message":""}'})
    assert client.call("give", {"members": '"result":[1,\t2]'}) == {"result": [1, 2]}
    extra = '{"stack":"x","code":-7,"message":"m","data":{"n":1.50}}'
    client.send({"op": "call", "method": "give", "params": {"members": f'"error":{extra}'}})
    assert client.text() == '{"error":%s}' % extra
    # 10 MiB of log block nobody.
    assert client.call("stderr", [10 << 20], 20) == {"result": None}
    assert client.end() == 0


@case("client: raw line breaks in a result do not break the line of the answer")
def line_breaks():
    client = Client(f"stdio:lsp:{sys.executable}", str(SCRIPTED[1]), "lsp")
    assert client.call("give", {"members": '"result":{\r\n  "a":\n1}'}) == {"result": {"a": 1}}
    assert client.end() == 0


class Listener:
    """A scripted peer that accepts one connection."""

    def __init__(self, framing):
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen()
        self.sock.settimeout(PATIENCE)
        self.framing = framing
        self.port = self.sock.getsockname()[1]

    def accept(self):
        return accepted_wire(self.framing, self.sock.accept()[0])


# ONE-01 ONE-08 ONE-11 ONE-12
@case("client --preset v1: 1.0 out, 1.0 in")
def version_one():
    listener = Listener("ndjson")
    client = Client(f"tcp://127.0.0.1:{listener.port}", options=("--preset", "v1"))
    wire = listener.accept()
    client.send({"op": "call", "method": "sum", "params": [1, 2]})
    assert wire.json() == {"method": "sum", "params": [1, 2], "id": 1}
    wire.send({"result": 3, "error": None, "id": 1})
    assert json.loads(client.text()) == {"result": 3}
    client.send({"op": "call", "method": "sum"})
    assert wire.json() == {"method": "sum", "params": [], "id": 2}
    wire.send({"result": None, "error": "boom", "id": 2})
    answer = json.loads(client.text())
    assert answer["error"]["message"] == "boom", answer
    assert client.do("notify", method="n", params=[1]) == {"ok": True}
    assert wire.json() == {"method": "n", "params": [1], "id": None}
    assert "refused" in client.do("batch", items=[{"method": "x"}])
    assert "refused" in client.call("x", {"by": "name"})
    wire.send({"method": "q", "params": [], "id": "s"})
    assert wire.json()["error"]["code"] == -32601
    assert client.end() == 0
    wire.ended()


# STD-09
@case("client tcp: an end and half a message each close with a reason")
def ends():
    for ending in ("end", "half"):
        listener = Listener("lsp")
        client = Client(f"tcp+lsp://127.0.0.1:{listener.port}")
        wire = listener.accept()
        client.send({"op": "call", "method": "x"})
        assert wire.json()["method"] == "x"
        if ending == "half":
            wire.send_raw(b"Content-Length: 50\r\n\r\n{")
        wire.close()
        answer = json.loads(client.text())
        assert list(answer) == ["closed"] and answer["closed"], answer
        assert client.end() == 0


@case("client: end of stdin while a call is open ends in time, exit code 0")
def impatient():
    listener = Listener("lsp")
    client = Client(f"tcp+lsp://127.0.0.1:{listener.port}")
    wire = listener.accept()
    client.send({"op": "call", "method": "never_answered", "timeout_ms": 500})
    assert wire.json()["method"] == "never_answered"
    assert client.end() == 0
    code, out, _ = run_once(
        [PEER, "client", f"stdio:ndjson:{PEER} server stdio:ndjson"],
        b'{"op":"call","method":"get_data"}\n{"op":"notify","method":"update"}')
    assert code == 0, code
    assert out == b'{"result":["hello",5]}\n{"ok":true}\n', out
