// json-rpc-2.0 (npm) as a client, and over stdio and WebSocket as a server at the same time:
//   node json_rpc_2_0_client.cjs http|ws URL POINTS… | stdio POINTS… -- COMMAND ARGS…
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const readline = require('node:readline');
const { JSONRPCClient, JSONRPCServer, JSONRPCServerAndClient, createJSONRPCRequest,
  createJSONRPCNotification } = require('json-rpc-2.0');
const { main } = require('./checklist.cjs');
const [kind, ...words] = process.argv.slice(2);

// Over HTTP each message is a request of its own, and its answer comes with the reply.
function overHttp(url) {
  const client = new JSONRPCClient(async (message) => {
    const reply = await fetch(url, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(message) });
    const body = await reply.text();
    if (body) client.receive(JSON.parse(body));
    else assert(reply.status === 204 || reply.status === 202, `status ${reply.status}`);
  });
  return { client };
}

async function overWebSocket(url) {
  const ws = new (require('ws'))(url);
  await once(ws, 'open');
  const both = new JSONRPCServerAndClient(new JSONRPCServer(), new JSONRPCClient(
    async (message) => ws.send(JSON.stringify(message))));
  ws.on('message', (data) => both.receiveAndSend(JSON.parse(data)));
  return { client: both.client, both, end: () => { ws.close(); return once(ws, 'close'); } };
}

function overStdio([command, ...args]) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const both = new JSONRPCServerAndClient(new JSONRPCServer(), new JSONRPCClient(
    async (message) => { child.stdin.write(JSON.stringify(message) + '\n'); }));
  readline.createInterface({ input: child.stdout })
    .on('line', (line) => both.receiveAndSend(JSON.parse(line)));
  return { client: both.client, both, end: async () => {
    child.stdin.end();
    const [code] = await once(child, 'exit');
    assert.strictEqual(code, 0);
  } };
}

let points = words.slice(1);
let open = () => (kind === 'http' ? overHttp(words[0]) : overWebSocket(words[0]));
if (kind === 'stdio') {
  const end = words.indexOf('--');
  points = words.slice(0, end);
  open = () => overStdio(words.slice(end + 1));
}

main(async () => {
  const { client, both, end } = await open();
  let id = 0;
  return {
    call: (method, params) => client.request(method, params),
    notify: async (method, params) => client.notify(method, params),
    batch: (items) => client.requestAdvanced(items.map(({ method, params, notify }) => (
      notify ? createJSONRPCNotification(method, params)
        : createJSONRPCRequest(`batch ${id += 1}`, method, params)))),
    serve: (method, run) => both.addMethod(method, run),
    end,
  };
}, points);
