// vscode-jsonrpc as the client of `antiphon-peer server`.
//   node vscode_client.cjs PACKAGE tcp PORT POINTS… | PACKAGE stdio POINTS… -- COMMAND ARGS…
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const net = require('node:net');
const { main } = require('./checklist.cjs');
const [name, kind, ...words] = process.argv.slice(2);
const rpc = require(`${name}/node`);
const end = kind === 'tcp' ? words.length : words.indexOf('--');
const points = words.slice(kind === 'tcp' ? 1 : 0, end);

async function open() {
  if (kind === 'tcp') {
    const socket = net.connect(Number(words[0]), '127.0.0.1');
    await once(socket, 'connect');
    return [new rpc.SocketMessageReader(socket), new rpc.SocketMessageWriter(socket)];
  }
  const child = spawn(words[end + 1], words.slice(end + 2), { stdio: ['pipe', 'pipe', 'inherit'] });
  return [new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin), child];
}

// Beside the points: the order of notifications, 64 callbacks at once, subscriptions.
async function more(conn) {
  const ticks = [], events = [];
  conn.onNotification('tick', (i) => ticks.push(i));
  conn.onNotification('eth_subscription', (event) => events.push(event));
  conn.onRequest('refuse', () => new rpc.ResponseError(77, 'no', { why: [1] }));
  conn.onRequest('mirror', (i) => i);
  assert.strictEqual((await conn.sendRequest('crash').catch((e) => e)).code, -32603);
  assert.strictEqual(await conn.sendRequest('emit', 5), 5);
  assert.deepStrictEqual(ticks, [0, 1, 2, 3, 4]);
  const refused = await conn.sendRequest('callback', 'refuse').catch((e) => e);
  assert.deepStrictEqual([refused.code, refused.message, refused.data], [77, 'no', { why: [1] }]);
  assert.strictEqual((await conn.sendRequest('callback', 'unknown').catch((e) => e)).code, -32601);
  const all = Array.from({ length: 64 }, (_, i) => i);
  const answers = await Promise.all(all.map((i) => conn.sendRequest('callback', 'mirror', [i])));
  assert.deepStrictEqual(answers, all);
  assert.strictEqual(await conn.sendRequest('eth_subscribe', 'newHeads'), '0x51');
  while (events.length < 3) await new Promise((done) => setTimeout(done, 5));
  assert.deepStrictEqual(events.map((event) => event.result.number), ['0x11', '0x12', '0x13']);
}

main(async () => {
  const [reader, writer, child] = await open();
  const conn = rpc.createMessageConnection(reader, writer);
  conn.onError(([error]) => { throw error; });
  conn.listen();
  // A list is given as single arguments, an object by name.
  const say = (send) => (method, params) => (Array.isArray(params)
    ? send(method, rpc.ParameterStructures.byPosition, ...params)
    : send(method, rpc.ParameterStructures.byName, params));
  const call = say((...all) => conn.sendRequest(...all));
  return {
    call,
    notify: say((...all) => conn.sendNotification(...all)),
    async cancelled(method, params) {
      const source = new rpc.CancellationTokenSource();
      setTimeout(() => source.cancel(), 50);
      return conn.sendRequest(method, ...params, source.token).catch((error) => error);
    },
    serve: (method, run) => conn.onRequest(method, run),
    async end() {
      await more(conn);
      const gone = new Promise((done) => conn.onClose(done));
      conn.end();
      if (child) assert.strictEqual((await once(child, 'exit'))[0], 0);
      else await gone;
    },
  };
}, points);
