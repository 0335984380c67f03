// An example: the WebAssembly core as a peer on a WebSocket. Node brings the socket and the clock;
// the module, which imports nothing, brings all of JSON-RPC. It calls a server, answers a call from
// it, and lets a call time out.
//
// usage: node websocket.mjs MODULE.wasm ws://HOST:PORT/PATH
// The server is `antiphon-peer server ws://…`; the package `ws` is found by NODE_PATH.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [path, url] = process.argv.slice(2);
if (url === undefined || process.argv.length !== 4) {
  console.error("usage: node websocket.mjs MODULE.wasm ws://HOST:PORT/PATH");
  process.exit(2);
}
// `import` does not look at NODE_PATH; `require` does.
const WebSocket = createRequire(import.meta.url)("ws");
const fail = (what) => {
  console.error(what);
  process.exit(1);
};
setTimeout(() => fail("nothing came in time"), 20_000).unref();

const module = new WebAssembly.Module(readFileSync(path));
const peer = new WebAssembly.Instance(module, {}).exports;
const now = () => Math.floor(performance.now());
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const bytes = (at, length) => new Uint8Array(peer.memory.buffer, at, length);

// One message is one text frame on the socket and one line in the module.
const socket = new WebSocket(url);
const wire = [];
const flush = () => {
  const n = peer.output_len();
  const lines = decoder.decode(bytes(peer.output(), n)).split("\n");
  peer.sent(n);
  for (const line of lines.filter((line) => line !== "")) {
    wire.push(`→ ${line}`);
    socket.send(line);
  }
};
socket.on("error", (error) => fail(`the WebSocket failed: ${error.message}`));
socket.on("message", (data, isBinary) => {
  if (isBinary) fail("a binary frame");
  wire.push(`← ${data}`);
  let rest = encoder.encode(`${data}\n`);
  while (rest.length > 0) {
    const n = Math.min(rest.length, peer.room());
    bytes(peer.input(), n).set(rest.subarray(0, n));
    peer.feed(n);
    rest = rest.subarray(n);
    flush();
  }
  settle();
});

// One call at a time, because `ended` is about the last one.
let settle = () => {};
const call = (method, params, within = 10_000) =>
  new Promise((resolve) => {
    const name = encoder.encode(method);
    const text = encoder.encode(JSON.stringify(params));
    bytes(peer.text(), name.length + text.length).set([...name, ...text]);
    if (peer.ask(name.length, text.length, now(), within) === 0) fail(`${method} was refused`);
    const timer = setInterval(() => { peer.tick(now()); flush(); settle(); }, 5);
    settle = () => {
      const how = ["", "result", "error", "timed out", "otherwise"][peer.ended()];
      if (how === "") return;
      clearInterval(timer);
      settle = () => {};
      resolve([how, decoder.decode(bytes(peer.text(), peer.text_len()))]);
    };
    flush();
  });

let checks = 0;
const check = (what, actual, wanted) => {
  checks += 1;
  const [a, b] = [JSON.stringify(actual), JSON.stringify(wanted)];
  if (a !== b) fail(`${what}: got ${a}, wanted ${b}\n${wire.join("\n")}`);
};
check("imports", WebAssembly.Module.imports(module), []);
await new Promise((resolve) => { socket.on("open", resolve); });

check("a call", await call("subtract", [42, 23]), ["result", "19"]);
check("what went over the wire", wire, [
  '→ {"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}',
  '← {"jsonrpc":"2.0","result":19,"id":1}',
]);
const word = { text: "ünïcode", list: [1, [2]] };
check("to the byte", await call("echo", word), ["result", JSON.stringify(word)]);
check("an error", await call("no_such_method", []), ["error", "Method not found"]);

// The server asks back on the same socket, before it answers.
const before = wire.length;
check("called back", await call("callback", ["echo", word]), ["result", JSON.stringify(word)]);
const between = wire.slice(before).map((line) => line[0]);
check("the order of that", between, ["→", "←", "→", "←"]);

check("too slow", (await call("sleep", [600_000], 50))[0], "timed out");
check("and on it goes", await call("subtract", { minuend: 5, subtrahend: 7 }), ["result", "-2"]);

// The module has no function for batches, so this one is sent on the socket itself. It gets one array of answers.
const answered = new Promise((resolve) => { socket.once("message", resolve); });
socket.send(JSON.stringify([1, 2].map((id) => ({ jsonrpc: "2.0", method: "sum", params: [id, id], id: `b${id}` }))));
check("a batch", JSON.parse(await answered).map((reply) => reply.result), [2, 4]);

const closed = new Promise((resolve) => { socket.on("close", resolve); });
check("the end", peer.eof(), 1);
socket.close(1000);
check("the close code", await closed, 1000);
console.log(`${checks} checks passed, 0 imports, ${wire.length} frames`);
process.exit(0);
