// Plays a conversation with the WebAssembly module and checks every reply.
// usage: node converse.mjs MODULE.wasm
import { readFileSync } from "node:fs";

const path = process.argv[2];
if (path === undefined || process.argv.length !== 3) {
  console.error("usage: node converse.mjs MODULE.wasm");
  process.exit(2);
}
let bytes;
try {
  bytes = readFileSync(path);
} catch (error) {
  console.error(`cannot read ${path}: ${error.code}`);
  process.exit(2);
}
const module = new WebAssembly.Module(bytes);
let checks = 0;
const check = (what, actual, wanted) => {
  checks += 1;
  if (JSON.stringify(actual) !== JSON.stringify(wanted)) {
    console.error(`${what}: got ${JSON.stringify(actual)}, wanted ${JSON.stringify(wanted)}`);
    process.exit(1);
  }
};
check("imports", WebAssembly.Module.imports(module), []);

const peer = new WebAssembly.Instance(module, {}).exports;
const feed = (text, piece) => {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) {
    const n = Math.min(rest.length, piece, peer.room());
    new Uint8Array(peer.memory.buffer, peer.input(), n).set(rest.subarray(0, n));
    peer.feed(n);
    rest = rest.subarray(n);
  }
};
const take = () => {
  const n = peer.output_len();
  const text = new TextDecoder().decode(new Uint8Array(peer.memory.buffer, peer.output(), n));
  peer.sent(n);
  return text;
};
const line = (value) => JSON.stringify(value) + "\n";

for (const piece of [1, 7, 4096]) {
  feed('{"jsonrpc":"2.0","method":"echo","params":[1.0,"é\\u0000"],"id":1e2}\n', piece);
  check("echo", take(), '{"jsonrpc":"2.0","result":[1.0,"é\\u0000"],"id":1e2}\n');
  feed(line({ jsonrpc: "2.0", method: "nothing", id: "x" }), piece);
  check("unknown method", JSON.parse(take()).error.code, -32601);
  feed("{nope}\n", piece);
  check("no JSON", JSON.parse(take()), {
    jsonrpc: "2.0",
    error: { code: -32700, message: "Parse error" },
    id: null,
  });
  feed(line([{ jsonrpc: "2.0", method: "echo", id: 1 }, { jsonrpc: "2.0", method: "tell" }, 7]), piece);
  check("batch", JSON.parse(take()).map((reply) => reply.error?.code ?? reply.result), [null, -32600]);
  feed(line({ jsonrpc: "2.0", method: "echo", params: ["x".repeat(5000)], id: 2 }), piece);
  check("too large", JSON.parse(take()).error.code, -32004);
  feed(line({ jsonrpc: "2.0", method: "tell" }), piece);
  check("notification", take(), "");
}
const answered = peer.call(100, 50);
check("call", JSON.parse(take()), { jsonrpc: "2.0", method: "ping", id: answered });
check("still open", peer.ended(), 0);
feed(line({ jsonrpc: "2.0", result: null, id: answered }), 3);
check("answered", peer.ended(), 1);
peer.call(200, 50);
take();
peer.tick(249);
check("not yet due", peer.ended(), 0);
peer.tick(250);
check("timed out", peer.ended(), 3);
for (let round = 0; round < 10000; round += 1) {
  feed('{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}\n', 4096);
  take();
}
const pages = peer.memory.buffer.byteLength;
for (let round = 0; round < 10000; round += 1) {
  feed('{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}\n', 4096);
  take();
}
check("memory does not grow", peer.memory.buffer.byteLength, pages);
check("end", peer.eof(), 1);
console.log(`${checks} checks passed, 0 imports, ${bytes.length} bytes of module`);
