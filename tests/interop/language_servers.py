"""Language servers of other authors, and our own `lsp`, each driven through `client` and through `proxy`.

A server counts when all six are seen: a non-empty hover, diagnostics for a planted error, an
answered server-to-client request, an answered cancel, 1 MiB of text that is not ASCII in a
document, and exit code 0.
"""

import json
import os
import pathlib
import shutil
import time

from libraries import js, py
from mcp_peers import checks
from raw_client import Client
from record import between
from suite import LSP, MODULES, PEER, PEERS, PROFILE, TARGET, Skip, case
from wire import PATIENCE, Process, Timeout, temporary_folder

SIX = {"hover", "diagnostics", "server request", "cancel", "1 MiB", "exit code 0"}
MIB = 1 << 20
START = 30.0  # seconds for the answer to initialize

CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {"configuration": True, "applyEdit": True,
                  "didChangeConfiguration": {"dynamicRegistration": True},
                  "didChangeWatchedFiles": {"dynamicRegistration": True},
                  "workspaceFolders": True},
    "textDocument": {"hover": {"contentFormat": ["plaintext", "markdown"]},
                     "publishDiagnostics": {"relatedInformation": True},
                     "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
                     "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": [
                         "quickfix", "refactor", "source"]}}}},
}

# What the driver, as an editor, answers.
ANSWERS = {
    "client/registerCapability": None, "client/unregisterCapability": None,
    "window/workDoneProgress/create": None, "workspace/configuration": [{}, {}, {}, {}],
    "workspace/applyEdit": {"applied": True}, "window/showMessageRequest": None,
    "workspace/workspaceFolders": None, "workspace/semanticTokens/refresh": None,
}


class ThroughClient:
    """An editor made of the operations of `antiphon-peer client`."""

    def __init__(self, command, folder):
        command = [str(word) for word in command]
        self.client = Client(f"stdio:lsp:{command[0]}", *command[1:], options=("--preset", "lsp"))
        for method, result in ANSWERS.items():
            assert self.client.do("answer", method=method, result=result) == {"ok": True}

    def request(self, method, params=None, timeout=PATIENCE):
        answer = self.client.call(method, params, timeout + 5, timeout_ms=int(timeout * 1000))
        if answer.get("timeout"):
            raise Timeout(method)
        return answer

    def request_and_cancel(self, method, params):
        return self.client.call(method, params, 20, cancel_after_ms=0, timeout_ms=15000)

    def notify(self, method, params=None):
        members = {} if params is None else {"params": params}
        answer = self.client.do("notify", method=method, **members)
        assert answer == {"ok": True}, answer

    def notification(self, method, timeout=PATIENCE):
        answer = self.client.do("wait", timeout + 5, method=method, timeout_ms=int(timeout * 1000))
        if "notification" not in answer:
            raise Timeout(f"{method}: {answer}")
        return answer["notification"]

    def was_asked(self, methods, timeout=PATIENCE):
        for method in methods:
            answer = self.client.do("asked", method=method, timeout_ms=0)
            if answer.get("asked", 0) > 0:
                return True
        answer = self.client.do("asked", timeout + 5, method=methods[0],
                                timeout_ms=int(timeout * 1000))
        return answer.get("asked", 0) > 0

    def exit(self):
        """Says exit; gives the server's exit code, which the next operation's answer names."""
        self.notify("exit")
        answer = self.client.do("wait", 15, method="never", timeout_ms=10000)
        assert self.client.end() == 0
        assert "exit status: " in answer.get("closed", ""), answer
        return int(answer["closed"].rpartition(" ")[2])


class ThroughProxy:
    """An editor of our own before `antiphon-peer proxy`."""

    def __init__(self, command, folder):
        self.process = Process([PEER, "proxy", *between(command)], cwd=folder)
        self.wire = self.process.wire("lsp")
        self.next_id = 0
        self.asked, self.told, self.answers = [], [], {}

    def _send(self, method, params, **members):
        message = {"jsonrpc": "2.0", "method": method, **members}
        if params is not None:
            message["params"] = params
        self.wire.send(message)

    def start(self, method, params):
        self.next_id += 1
        ident = f"editor-{self.next_id}"
        self._send(method, params, id=ident)
        return ident

    def _take(self, timeout):
        message = self.wire.json(timeout)
        if "method" in message and "id" in message:
            self.asked.append(message["method"])
            self.wire.send({"jsonrpc": "2.0", "id": message["id"],
                            "result": ANSWERS.get(message["method"])})
        elif "method" in message:
            self.told.append((message["method"], message.get("params")))
        else:
            self.answers[message["id"]] = message

    def _until(self, found, timeout):
        deadline = time.monotonic() + timeout
        while (value := found()) is None:
            self._take(max(0.01, deadline - time.monotonic()))
        return value

    def answer(self, ident, timeout=PATIENCE):
        return self._until(lambda: self.answers.pop(ident, None), timeout)

    def request(self, method, params=None, timeout=PATIENCE):
        return self.answer(self.start(method, params), timeout)

    def request_and_cancel(self, method, params):
        ident = self.start(method, params)
        self._send("$/cancelRequest", {"id": ident})
        return self.answer(ident, 15)

    def notify(self, method, params=None):
        self._send(method, params)

    def together(self, *messages):
        """Sends messages in one piece; gives the answers of those that have an id, in the order of `messages`."""
        texts = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
        self.wire.send_raw(b"".join(self.wire.frame(text) for text in texts))
        return [self.answer(message["id"]) for message in messages if "id" in message]

    def notification(self, method, timeout=PATIENCE):
        def find():
            for at, (name, params) in enumerate(self.told):
                if name == method:
                    del self.told[at]
                    return (params,)
            return None
        return self._until(find, timeout)[0]

    def was_asked(self, methods, timeout=PATIENCE):
        def find():
            return True if any(method in self.asked for method in methods) else None
        try:
            return self._until(find, timeout)
        except Timeout:
            return False

    def exit(self):
        self.notify("exit")
        try:
            while True:
                self._take(10)
        except AssertionError as ended:
            assert "the input ended" in str(ended), ended
        return self.process.wait()


def comment_of(prefix, size):
    """Lines of comment of at least so many bytes, most of them not ASCII."""
    line = prefix + " " + "äß€😀語" * 12 + "\n"
    return line * (size // len(line.encode()) + 1)


class Editor:
    """One session with one server, and what has been seen in it."""

    def __init__(self, route, command, language, extension, folder):
        self.folder = pathlib.Path(folder)
        self.session = route(command, folder)
        self.language, self.extension = language, extension
        self.seen = set()

    def start(self, options=None):
        params = {"processId": os.getpid(), "rootUri": self.folder.as_uri(),
                  "rootPath": str(self.folder), "capabilities": CAPABILITIES,
                  "workspaceFolders": [{"uri": self.folder.as_uri(), "name": "interop"}]}
        if options is not None:
            params["initializationOptions"] = options
        answer = self.session.request("initialize", params, START)
        assert "capabilities" in answer["result"], answer
        self.session.notify("initialized", {})
        return answer["result"]["capabilities"]

    def uri(self, name):
        return (self.folder / f"{name}.{self.extension}").as_uri()

    def open(self, name, text):
        (self.folder / f"{name}.{self.extension}").write_text(text)
        self.session.notify("textDocument/didOpen", {"textDocument": {
            "uri": self.uri(name), "languageId": self.language, "version": 1, "text": text}})

    def change(self, name, text, version):
        self.session.notify("textDocument/didChange", {
            "textDocument": {"uri": self.uri(name), "version": version},
            "contentChanges": [{"text": text}]})

    def at(self, name, line, character):
        return {"textDocument": {"uri": self.uri(name)},
                "position": {"line": line, "character": character}}

    def diagnostics(self, name, wanted, timeout=20):
        """Waits for diagnostics of a document that mention `wanted`."""
        for _ in range(20):
            params = self.session.notification("textDocument/publishDiagnostics", timeout)
            if params["uri"] == self.uri(name) and wanted in json.dumps(params["diagnostics"]):
                self.seen.add("diagnostics")
                return params["diagnostics"]
        raise AssertionError(f"no diagnostics with {wanted!r}")

    def hover(self, name, line, character, wanted, timeout=20):
        answer = self.session.request("textDocument/hover", self.at(name, line, character), timeout)
        assert wanted in json.dumps(answer.get("result")), answer
        self.seen.add("hover")
        return answer["result"]

    def cancel(self, method, params, must_be_error=True):
        answer = self.session.request_and_cancel(method, params)
        if "error" in answer:
            assert answer["error"]["code"] in (-32800, -32802), answer
            self.seen.add("cancel")
            return "cancelled"
        assert "result" in answer and not must_be_error, answer
        return "answered with its result"

    def asked(self, *methods):
        assert self.session.was_asked(methods), "the server asked nothing"
        self.seen.add("server request")

    def finish(self, notes=""):
        answer = self.session.request("shutdown")
        assert answer.get("result", ...) is None, answer
        code = self.session.exit()
        assert code == 0, code
        self.seen.add("exit code 0")
        assert self.seen == SIX, f"not seen: {SIX - self.seen}"
        return "all six seen" + (f"; {notes}" if notes else "")


def both_routes(name, needs):
    def register(function):
        for route, through in ((ThroughClient, "client"), (ThroughProxy, "proxy")):
            def run(route=route):
                with temporary_folder() as folder:
                    return function(route, folder)
            case(f"{name} through {through}: hover, diagnostics, server request, cancel, 1 MiB, "
                 "exit code", needs)(run)
        return function
    return register


@both_routes("ruff server", ("bin:ruff",))
def ruff(route, folder):
    editor = Editor(route, [PEERS / "python" / "bin" / "ruff", "server"], "python", "py", folder)
    editor.start()
    editor.asked("client/registerCapability")
    editor.open("small", "import os\nimport sys  # noqa: F401\n")
    editor.diagnostics("small", "F401")
    # ruff tells on hover what a rule code in a comment means.
    editor.hover("small", 1, 21, "unused-import")
    text = comment_of("#", MIB)
    lines = text.count("\n")
    editor.open("large", text + "import os\nimport sys  # noqa: F401\n")
    found = editor.diagnostics("large", "F401")
    assert found[0]["range"]["start"]["line"] == lines, found
    editor.hover("large", lines + 1, 21, "unused-import")
    editor.seen.add("1 MiB")
    # While it is busy with the large document, the request and its cancel wait in its queue.
    place = {"textDocument": {"uri": editor.uri("large")},
             "options": {"tabSize": 4, "insertSpaces": True}}
    for _ in range(10):
        if editor.cancel("textDocument/formatting", place, must_be_error=False) == "cancelled":
            break
    return editor.finish()


@both_routes("clangd", ("bin:clangd",))
def clangd(route, folder):
    command = [PEERS / "python" / "bin" / "clangd", "--background-index=false", "-j=2",
               "--log=error"]
    editor = Editor(route, command, "cpp", "cpp", folder)
    editor.start()
    text = ("int answer(int number) {\n  if (number) { return 1; } else { return 2; }\n}\n"
            "int main() { return answer(undeclared); }\n")
    editor.open("small", text)
    editor.diagnostics("small", "undeclared")
    editor.hover("small", 3, 22, "answer")
    # A tweak is applied by asking the editor, in the middle of the request that ordered it.
    answer = editor.session.request("workspace/executeCommand", {
        "command": "clangd.applyTweak", "arguments": [{
            "file": editor.uri("small"), "tweakID": "SwapIfBranches",
            "selection": {"start": {"line": 1, "character": 3},
                          "end": {"line": 1, "character": 3}}}]})
    assert "result" in answer, answer
    editor.asked("workspace/applyEdit")
    big = comment_of("//", MIB) + text
    lines = big.count("\n")
    editor.open("large", big)
    editor.diagnostics("large", "undeclared", 40)
    editor.hover("large", lines - 1, 22, "answer", 40)
    editor.seen.add("1 MiB")
    # While the changed document is being built, a request for it waits and can be cancelled.
    for attempt in range(5):
        editor.change("large", big + "int other();\n" * (attempt + 1), attempt + 2)
        place = editor.at("large", lines - 1, 22)
        if editor.cancel("textDocument/hover", place, must_be_error=False) == "cancelled":
            break
    return editor.finish()


@both_routes("typescript-language-server", ("npm:typescript-language-server", "npm:typescript"))
def typescript(route, folder):
    command = [shutil.which("node"), MODULES / "typescript-language-server" / "lib" / "cli.mjs",
               "--stdio"]
    editor = Editor(route, command, "typescript", "ts", folder)
    (pathlib.Path(folder) / "tsconfig.json").write_text('{"compilerOptions":{"strict":true}}')
    editor.start({"tsserver": {"path": str(MODULES / "typescript" / "lib")}})
    text = 'const answer: number = "wrong";\nfunction twice(n: number) { return n * 2; }\ntwice(answer);\n'
    editor.open("small", text)
    editor.diagnostics("small", "not assignable", 40)
    editor.hover("small", 2, 1, "twice")
    editor.asked("window/workDoneProgress/create", "workspace/configuration")
    big = comment_of("//", MIB) + text
    lines = big.count("\n")
    editor.open("large", big)
    editor.hover("large", lines - 1, 1, "twice", 40)
    editor.seen.add("1 MiB")
    # It reads the cancel and answers nevertheless with the result: LSP allows that.
    how = editor.cancel("textDocument/documentSymbol",
                        {"textDocument": {"uri": editor.uri("large")}}, must_be_error=False)
    editor.seen.add("cancel")
    return editor.finish(f"the cancelled request was {how}")


@both_routes("antiphon's own lsp", ())
def own(route, folder):
    editor = Editor(route, [LSP], "plaintext", "txt", folder)
    capabilities = editor.start()
    assert capabilities["positionEncoding"] == "utf-16", capabilities
    editor.asked("workspace/configuration")
    log = editor.session.notification("window/logMessage")
    assert "[{}, {}, {}, {}]" in log["message"], log
    editor.open("small", "# Title\n😀é TODO word\ndef f\n")
    found = editor.diagnostics("small", "left to do")
    assert [mark["range"]["start"] for mark in found] == [{"line": 1, "character": 4}], found
    hover = editor.hover("small", 1, 10, "word: 4 letters")
    assert hover["range"] == {"start": {"line": 1, "character": 9},
                              "end": {"line": 1, "character": 13}}, hover
    answer = editor.session.request("textDocument/documentSymbol",
                                    {"textDocument": {"uri": editor.uri("small")}})
    assert [symbol["name"] for symbol in answer["result"]] == ["Title", "f"], answer
    big = comment_of("#", MIB) + "TODO\n"
    editor.open("large", big)
    found = editor.diagnostics("large", "left to do")
    assert found[0]["range"]["start"]["line"] == big.count("\n") - 1, found
    editor.seen.add("1 MiB")
    # It answers everything at once, so a cancel finds its request answered, or still waiting.
    editor.cancel("textDocument/documentSymbol", {"textDocument": {"uri": editor.uri("large")}},
                  must_be_error=False)
    editor.seen.add("cancel")
    return editor.finish()


@both_routes("python-lsp-server", ("bin:pylsp",))
def pylsp(route, folder):
    editor = Editor(route, [PEERS / "python" / "bin" / "python", "-m", "pylsp"], "python", "py",
                    folder)
    editor.start()
    editor.open("small", "import os\n\ndef twice(n):\n    '''Doubles.'''\n    return n * 2\n\ntwice(1)\n")
    editor.diagnostics("small", "imported but unused")
    editor.hover("small", 6, 1, "Doubles")
    editor.asked("window/workDoneProgress/create")
    big = comment_of("#", MIB)
    lines = big.count("\n")
    editor.open("large", big + "import os\n")
    found = editor.diagnostics("large", "imported but unused", 40)
    assert found[0]["range"]["start"]["line"] == lines, found
    editor.seen.add("1 MiB")
    # It begins everything at once, and what has begun it does not stop.
    how = editor.cancel("textDocument/hover", editor.at("large", lines, 8), must_be_error=False)
    editor.seen.add("cancel")
    return editor.finish(f"the cancelled request was {how}")


# -- changes and ends

END_TIME_MAX = 3.0  # seconds from `exit` to the end of the process


@case("pygls server through proxy: each of 100 changes is seen by the request behind it",
      ("pypi:pygls",))
def pygls_changes():
    with temporary_folder() as folder:
        editor = Editor(ThroughProxy, py("pygls_server.py"), "plaintext", "txt", folder)
        editor.start()
        editor.open("a", "w0 rest\n")
        messages = []
        for i in range(1, 101):
            # Each replaces what the change before it wrote.
            end = {"line": 0, "character": len(f"w{i - 1}")}
            messages += [
                {"method": "textDocument/didChange", "params": {
                    "textDocument": {"uri": editor.uri("a"), "version": i + 1},
                    "contentChanges": [{"range": {"start": {"line": 0, "character": 0}, "end": end},
                                        "text": f"w{i}"}]}},
                {"id": f"h{i}", "method": "textDocument/hover", "params": editor.at("a", 0, 0)}]
        answers = editor.session.together(*messages)
        found = [answer["result"]["contents"] for answer in answers]
        assert found == [f"the word w{i}" for i in range(1, 101)], found
        assert editor.session.request("shutdown")["result"] is None
        assert editor.session.exit() == 0


@case("pygls server through proxy: shutdown and exit together, behind a request that runs",
      ("pypi:pygls",))
def pygls_ends():
    with temporary_folder() as folder:
        editor = Editor(ThroughProxy, py("pygls_server.py"), "plaintext", "txt", folder)
        editor.start()
        slow = editor.session.start("interop/slow", {})
        time.sleep(0.2)
        began = time.monotonic()
        answers = editor.session.together({"id": "down", "method": "shutdown"}, {"method": "exit"})
        assert answers == [{"jsonrpc": "2.0", "id": "down", "result": None}], answers
        # The server's own answer at its end, or the proxy's for it.
        code = editor.session.answer(slow)["error"]["code"]
        assert code in (-32800, -32603), code
        assert editor.session.process.wait() == 0
        assert time.monotonic() - began < END_TIME_MAX, time.monotonic() - began
        editor = Editor(ThroughProxy, py("pygls_server.py"), "plaintext", "txt", folder)
        editor.start()
        # LSP demands 1 here; pygls 2.1.1 exits with 0, and the proxy with what its server exits with.
        assert editor.session.exit() == 0


@case("pygls server through client: shutdown while a request runs, then exit", ("pypi:pygls",))
def pygls_ends_of_client():
    with temporary_folder() as folder:
        editor = Editor(ThroughClient, py("pygls_server.py"), "plaintext", "txt", folder)
        editor.start()
        # It answers `shutdown` at once, and what runs not at all.
        done = editor.session.client.do("calls", timeout_ms=500, items=[
            {"method": "interop/slow"}, {"method": "shutdown"}])
        assert done == {"calls": [{"timeout": True}, {"result": None}], "order": [1, 0]}, done
        began = time.monotonic()
        assert editor.session.exit() == 0
        assert time.monotonic() - began < END_TIME_MAX, time.monotonic() - began


EXAMPLE = TARGET / PROFILE / "examples" / "lsp_server"

OURS = {"lsp": LSP, "the example lsp_server": EXAMPLE}


def built(name):
    if not OURS[name].exists():
        raise Skip("not built: cargo build -p antiphon-tokio --example lsp_server")
    return OURS[name]


for package in ("vscode-jsonrpc", "vscode-jsonrpc-10"):
    @case(f"{package} as the editor of the example lsp_server", (f"npm:{package}",))
    def editor_of_example(package=package):
        return checks([*js("vscode_lsp_editor.cjs"), package, built("the example lsp_server")])

    for server in OURS:
        # USE-37
        @case(f"{package} as an editor that leaves {server}: shutdown and exit in every order",
              (f"npm:{package}",))
        def leaving_editor(package=package, server=server):
            return checks([*js("vscode_lsp_ends.cjs"), package, "end", built(server)])

        @case(f"{package} as an editor of {server}: a request behind each change and positions in floats",
              (f"npm:{package}",))
        def typing_editor(package=package, server=server):
            return checks([*js("vscode_lsp_ends.cjs"), package, "changes", built(server)])

for server in OURS:
    # USE-37
    @case(f"pygls's language client as the editor of {server}: a request behind each change and the ends",
          ("pypi:pygls",))
    def pygls_editor(server=server):
        return checks([*py("pygls_lsp_ends.py"), built(server)])
