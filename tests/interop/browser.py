"""Chromium, with pages of an allowed and of another origin, before every listener of ours but the Unix socket."""

import http.server
import json
import shutil
import tempfile
import threading

from checklist import same
from raw_client import Client
from suite import PEER, PEERS, RUNTIME, case
from wire import Process

# How long a page may take for all that it tries, the start of the browser included.
PAGE_SECONDS = 60

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-default-apps", "--disable-extensions", "--no-proxy-server",
]

# A page sends calls to every target in every way that it has: bodies with every type that needs no
# preflight, with none and with one that needs it, beacons, a form, URLs and WebSockets. Errors are
# ignored: a refused request or a closed connection is what the case wants.
EVIL = """<!doctype html><meta charset="utf-8"><script>
const targets = TARGETS, call = '{"jsonrpc":"2.0","method":"update","params":[1]}';
const lines = "\\r\\n" + call + "\\n" + call + "\\r\\nContent-Length: " + call.length + "\\r\\n\\r\\n" + call;
const form = encodeURIComponent;
async function attack(url) {
    const bodies = [call, lines].flatMap(text => [
        text, new Blob([text]), new Blob([text], {type: "text/plain"}), new TextEncoder().encode(text),
        new Blob([text], {type: "application/x-www-form-urlencoded"}),
        new Blob([text], {type: "multipart/form-data; boundary=x"}),
        new Blob([text], {type: "application/json"})]);
    for (const body of bodies) {
        for (const mode of ["no-cors", "cors"]) {
            for (const referrerPolicy of ["", "no-referrer"]) {
                try { await fetch(url, {method: "POST", mode, body, referrerPolicy}); } catch (_) {}
            }
        }
        navigator.sendBeacon(url, body);
    }
    for (const method of ["GET", "HEAD"]) {
        try { await fetch(url + "?" + form(call), {method, mode: "no-cors"}); } catch (_) {}
    }
    // A form whose one field is the call: text/plain leaves it as it stands, but for a "=".
    await new Promise(done => {
        const frame = document.createElement("iframe"), post = document.createElement("form");
        frame.name = "f" + Math.random();
        document.body.append(frame, post);
        Object.assign(post, {method: "POST", action: url, enctype: "text/plain", target: frame.name});
        const field = document.createElement("input");
        [field.name, field.value] = [call.slice(0, -1) + ',"a":"', '"}'];
        post.append(field);
        frame.onload = done;
        setTimeout(done, 2000);
        post.submit();
    });
}
function open(url) {
    return new Promise(done => {
        const socket = new WebSocket(url);
        socket.onopen = () => { socket.send(call); socket.close(); };
        socket.onclose = () => done();
    });
}
addEventListener("load", async () => {
    await Promise.all(targets.map(url => url.startsWith("ws") ? open(url) : attack(url)));
    await fetch("/done", {method: "POST", body: "[]"});
});
</script><body></body>"""

# A page of an allowed origin calls, and reports the results.
GOOD = """<!doctype html><meta charset="utf-8"><script>
const [http, ws] = TARGETS;
async function ask(method) {
    const body = JSON.stringify({jsonrpc: "2.0", method, params: [1], id: 1});
    const headers = {"Content-Type": "application/json"};
    return (await (await fetch(http, {method: "POST", headers, body})).json()).result;
}
function over(url) {
    return new Promise((done, failed) => {
        const socket = new WebSocket(url);
        socket.onopen = () => socket.send('{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}');
        socket.onmessage = message => { done(JSON.parse(message.data).result); socket.close(); };
        socket.onerror = () => failed("no WebSocket");
    });
}
addEventListener("load", async () => {
    const seen = [];
    for (const one of [() => ask("update"), () => ask("count"), () => over(ws)]) {
        try { seen.push(await one()); } catch (error) { seen.push(String(error)); }
    }
    await fetch("/done", {method: "POST", body: JSON.stringify(seen)});
});
</script>"""


def browser():
    """The program, and what it needs in its environment: the system's, or what .ci/peers unpacked."""
    root = PEERS / "browser" / "root"
    if shutil.which("chromium"):
        return shutil.which("chromium"), {}
    # Some packages keep libraries in folders of their own.
    libraries = sorted({str(found.parent) for found in root.glob("**/*-linux-gnu*/**/*.so*")})
    program = root / "usr" / "lib" / "chromium" / "chromium"
    return program, {"LD_LIBRARY_PATH": ":".join(libraries)}


class Page:
    """A page with an origin of its own, which posts to `/done` at its end."""

    def __init__(self):
        self.text, self.seen, self.done = "", None, threading.Event()
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(page.text if self.path == "/" else "")

            def do_POST(self):
                page.seen = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.answer("")
                page.done.set()

            def answer(self, text):
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def show(self, text, targets):
        """Has a browser of its own open the page; gives what the page has seen."""
        self.text = text.replace("TARGETS", json.dumps(targets))
        program, env = browser()
        # A helper of the browser may outlive it for a moment, and write.
        with tempfile.TemporaryDirectory(prefix="antiphon-interop-", ignore_cleanup_errors=True) as folder:
            running = Process([program, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-port=0",
                               self.origin + "/"], env={**env, "HOME": folder})
            try:
                is_done = self.done.wait(PAGE_SECONDS)
                assert is_done, f"the page is not done: {running.stderr_lines[-5:]}"
            finally:
                running.kill()
                running.process.wait(5)
                self.server.shutdown()
        return self.seen


def listening(target, *options):
    """A server of ours, and the target that it has."""
    process = Process([PEER, *RUNTIME, *options, "server", target])
    return process, process.stderr_line(r"^listening (\S+)$").group(1)


def counted(target):
    """How often the server has received the methods that it counts."""
    client = Client(target)
    return client.call("count")["result"]


# USE-06 USE-07 SEC-08
@case("Chromium: nothing that a page of another origin sends runs, over any listener",
      ("browser", "target:http", "target:ws"))
def evil():
    page, friend = Page(), "http://app.example"
    plain = [listening(f"{scheme}://127.0.0.1:0") for scheme in ("tcp", "tcp+json", "tcp+lsp")]
    web = [listening("http://127.0.0.1:0/"), listening("http://127.0.0.1:0/", "--origin", friend),
           listening("ws://127.0.0.1:0/", "--origin", friend)]
    targets = [target for _, target in plain + web]
    port = targets[-1].rsplit(":", 1)[1]
    urls = ["http" + target[target.index("://"):] for target in targets] + [f"ws://127.0.0.1:{port}"]
    page.show(EVIL, urls)
    for target in targets:
        same(counted(target), 0)
    for process, _ in plain:
        # The browser did reach it: it reports the line of an HTTP request.
        process.stderr_line("HTTP")
    return f"{len(urls)} targets"


# USE-07 SEC-08
@case("Chromium: a page of an allowed origin calls over HTTP, preflight included, and over a WebSocket",
      ("browser", "target:http", "target:ws"))
def good():
    page = Page()
    allowed = ("--origin", page.origin)
    targets = [listening(target, *allowed)[1] for target in ("http://127.0.0.1:0/", "ws://127.0.0.1:0/")]
    same(page.show(GOOD, targets), [None, 1, 19])
    same(counted(targets[0]), 1)
