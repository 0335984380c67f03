"""The two tiny servers, spoken to raw: `lsp` and `mcp`."""

import json

from suite import LSP, MCP, case
from wire import Process, run_once


def lsp():
    process = Process([LSP])
    return process, process.wire("lsp")


def initialized(wire, capabilities=None):
    answer = wire.ask("initialize", {"processId": None, "rootUri": None,
                                     "capabilities": capabilities or {}})
    assert answer["result"]["capabilities"]["hoverProvider"] is True, answer
    wire.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})


@case("lsp: exit code 0 after shutdown, 1 without, 1 at a bare end of input")
def lsp_exit():
    process, wire = lsp()
    initialized(wire, {"workspace": {"configuration": False}})
    # Editors send null as the params of shutdown.
    assert wire.ask("shutdown", None, 2) == {"jsonrpc": "2.0", "result": None, "id": 2}
    assert wire.ask("textDocument/hover", {}, 3)["error"]["code"] == -32600
    wire.send({"jsonrpc": "2.0", "method": "exit"})
    wire.ended()
    assert process.wait() == 0
    process, wire = lsp()
    initialized(wire)
    wire.send({"jsonrpc": "2.0", "method": "exit"})
    assert process.wait() == 1
    process, wire = lsp()
    wire.end()
    assert process.wait() == 1
    process, wire = lsp()
    initialized(wire, {"workspace": {"configuration": False}})
    wire.send({"jsonrpc": "2.0", "method": "shutdown", "id": 2})
    wire.end()
    assert wire.json()["id"] == 2
    assert process.wait() == 0


@case("lsp: requests before initialize, a second initialize and unknown methods are refused")
def lsp_rules():
    _, wire = lsp()
    assert wire.ask("textDocument/hover", {})["error"]["code"] == -32002
    initialized(wire, {"workspace": {"configuration": False}})
    assert wire.ask("initialize", {})["error"]["code"] == -32600
    assert wire.ask("nope")["error"]["code"] == -32601
    assert wire.ask("textDocument/hover", {"x": 1})["error"]["code"] == -32602


@case("lsp: diagnostics follow the document, columns count UTF-16 code units")
def lsp_documents():
    _, wire = lsp()
    initialized(wire)
    request = wire.json()
    assert request["method"] == "workspace/configuration", request
    assert request["params"] == {"items": [{"section": "antiphon"}]}, request
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": [{"x": 1}]})
    assert wire.json()["params"]["message"] == 'configuration: [{"x": 1}]'
    uri = "untitled:doc"
    text = "é😀TODO TODO\r\n# Head\nfn go() {}\n"
    wire.send({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {
        "uri": uri, "languageId": "x", "version": 1, "text": text}}})
    told = wire.json()
    assert told["method"] == "textDocument/publishDiagnostics" and told["params"]["uri"] == uri
    ranges = [mark["range"] for mark in told["params"]["diagnostics"]]
    assert ranges == [
        {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 7}},
        {"start": {"line": 0, "character": 8}, "end": {"line": 0, "character": 12}}], ranges
    place = {"textDocument": {"uri": uri}}
    answer = wire.ask("textDocument/documentSymbol", place)["result"]
    assert [(symbol["name"], symbol["range"]["start"]["line"]) for symbol in answer] == [
        ("Head", 1), ("go", 2)], answer
    at = {**place, "position": {"line": 0, "character": 8}}
    assert wire.ask("textDocument/hover", at)["result"]["contents"]["value"] == "TODO: 4 letters"
    at["position"] = {"line": 9, "character": 0}
    assert wire.ask("textDocument/hover", at)["result"] is None
    wire.send({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {
        "textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "x TODO"}]}})
    told = wire.json()["params"]["diagnostics"]
    assert [mark["range"]["start"] for mark in told] == [{"line": 0, "character": 2}], told
    wire.send({"jsonrpc": "2.0", "method": "textDocument/didClose", "params": place})
    assert wire.json()["params"] == {"uri": uri, "diagnostics": []}


def mcp(revision="2025-11-25", capabilities=None):
    process = Process([MCP])
    wire = process.wire("ndjson")
    answer = wire.ask("initialize", {"protocolVersion": revision, "capabilities": capabilities or {},
                                     "clientInfo": {"name": "raw", "version": "1"}})
    wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return process, wire, answer["result"]


def call(wire, name, arguments=None, ident=1, **more):
    params = {"name": name, **more}
    if arguments is not None:
        params["arguments"] = arguments
    return wire.ask("tools/call", params, ident)


# EXA-04
@case("mcp: the revision is negotiated, ping and tools/list answer")
def mcp_start():
    for asked, given in (("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"),
                         ("1999-01-01", "2025-11-25"), ("2025-11-25", "2025-11-25")):
        process, wire, result = mcp(asked)
        assert result["protocolVersion"] == given, result
        assert "tools" in result["capabilities"] and result["serverInfo"]["name"], result
        wire.end()
        assert process.wait() == 0
    _, wire, _ = mcp()
    assert wire.ask("ping") == {"jsonrpc": "2.0", "result": {}, "id": 1}
    tools = wire.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["echo", "add", "progress", "ask"], tools
    wire.send([{"jsonrpc": "2.0", "method": "ping", "id": 1}])
    assert wire.json()["error"]["code"] == -32600
    wire.send({"jsonrpc": "2.0", "method": "ping", "id": None})
    assert wire.json()["error"]["code"] == -32600


# EXA-04
@case("mcp: echo, add, progress, ask; unknown tools, wrong arguments and cancelled calls")
def mcp_tools():
    _, wire, _ = mcp()
    assert call(wire, "echo", {"text": "€😀"})["result"]["content"] == [
        {"type": "text", "text": "€😀"}]
    assert call(wire, "add", {"a": 0.5, "b": 2})["result"]["content"][0]["text"] == "2.5"
    assert call(wire, "add", {"a": 1})["result"]["isError"] is True
    assert call(wire, "echo")["result"]["isError"] is True
    assert call(wire, "nope", {})["error"]["code"] == -32602
    assert wire.ask("tools/call", {})["error"]["code"] == -32602
    assert call(wire, "ask")["result"]["isError"] is True
    for token in ("t", 7, 1.5):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "progress", "arguments": {"steps": 3, "delayMs": 1},
            "_meta": {"progressToken": token}}})
        for step in (1, 2, 3):
            assert wire.json()["params"] == {"progressToken": token, "progress": step, "total": 3}
        assert wire.json()["result"]["content"][0]["text"] == "3 steps done"
    wire.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {
        "name": "progress", "arguments": {"steps": 1000, "delayMs": 20}}})
    assert call(wire, "add", {"a": 1, "b": 1}, 2)["id"] == 2
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
               "params": {"requestId": "slow", "reason": "enough"}})
    wire.nothing(0.3)
    _, wire, _ = mcp(capabilities={"roots": {}})
    wire.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "ask"}})
    request = wire.json()
    assert request["method"] == "roots/list" and "params" not in request, request
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}})
    assert json.loads(wire.json()["result"]["content"][0]["text"]) == {"roots": []}


@case("lsp and mcp: wrong usage is one line and exit code 2")
def tiny_usage():
    for binary in (LSP, MCP):
        code, out, err = run_once([binary, "--stdio-please"])
        assert code == 2 and out == b"" and len(err.splitlines()) == 1, (binary, code, err)
