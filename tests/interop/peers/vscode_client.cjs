// vscode-jsonrpc as the client of `antiphon-peer server`.
//   node vscode_client.cjs PACKAGE stdio COMMAND ARGS… | PACKAGE tcp PORT
// Prints "ok N" and exits 0, or throws.
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const net = require('node:net');
const [name, kind, ...rest] = process.argv.slice(2);
const rpc = require(`${name}/node`);
setTimeout(() => { console.error('timed out'); process.exit(1); }, 20000).unref();

async function main() {
  let reader, writer, child, socket;
  if (kind === 'stdio') {
    child = spawn(rest[0], rest.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
    reader = new rpc.StreamMessageReader(child.stdout);
    writer = new rpc.StreamMessageWriter(child.stdin);
  } else {
    socket = net.connect(Number(rest[0]), '127.0.0.1');
    await new Promise((done) => socket.once('connect', done));
    reader = new rpc.SocketMessageReader(socket);
    writer = new rpc.SocketMessageWriter(socket);
  }
  const conn = rpc.createMessageConnection(reader, writer);
  const ticks = [], events = [];
  const gone = new Promise((done) => conn.onClose(done));
  conn.onNotification('tick', (i) => ticks.push(i));
  conn.onNotification('eth_subscription', (event) => events.push(event));
  conn.onRequest('who', (a) => ['me', a]);
  conn.onRequest('refuse', () => new rpc.ResponseError(77, 'no', { why: [1] }));
  conn.onError(([error]) => { throw error; });
  conn.listen();
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };

  same(await conn.sendRequest('subtract', 42, 23), 19);
  same(await conn.sendRequest('subtract', rpc.ParameterStructures.byName, { minuend: 42, subtrahend: 23 }), 19);
  same(await conn.sendRequest('get_data'), ['hello', 5]);
  same(await conn.sendRequest('echo', rpc.ParameterStructures.byName, { a: null, ü: '€😀' }), { a: null, ü: '€😀' });
  const fail = await conn.sendRequest('fail', rpc.ParameterStructures.byName, { code: 5, message: 'm', data: [1] }).catch((e) => e);
  same([fail.code, fail.message, fail.data], [5, 'm', [1]]);
  same((await conn.sendRequest('nope').catch((e) => e)).code, -32601);
  same((await conn.sendRequest('crash').catch((e) => e)).code, -32603);
  await conn.sendNotification('update', 1, 2);
  await conn.sendNotification('notify_hello');
  same(await conn.sendRequest('count'), 2);
  same(await conn.sendRequest('emit', 5), 5);
  same(ticks, [0, 1, 2, 3, 4]);
  same(await conn.sendRequest('callback', 'who', [7]), ['me', 7]);
  const refused = await conn.sendRequest('callback', 'refuse').catch((e) => e);
  same([refused.code, refused.message, refused.data], [77, 'no', { why: [1] }]);
  same((await conn.sendRequest('callback', 'unknown').catch((e) => e)).code, -32601);
  const many = await Promise.all(Array.from({ length: 64 }, (_, i) => conn.sendRequest('callback', 'who', [i])));
  same(many.map(([, i]) => i), Array.from({ length: 64 }, (_, i) => i));
  const source = new rpc.CancellationTokenSource();
  const slow = conn.sendRequest('sleep', 9000, source.token).catch((e) => e);
  setTimeout(() => source.cancel(), 20);
  const quick = await conn.sendRequest('get_data');
  same(quick, ['hello', 5]);
  same((await slow).code, -32800);
  const text = 'äß€😀'.repeat(100000);
  same(await conn.sendRequest('echo', text), [text]);
  same(await conn.sendRequest('eth_subscribe', 'newHeads'), '0x51');
  while (events.length < 3) await new Promise((done) => setTimeout(done, 5));
  same(events.map((event) => event.result.number), ['0x11', '0x12', '0x13']);
  conn.end();
  if (child) same(await new Promise((done) => child.once('exit', done)), 0);
  else await gone;
  console.log(`ok ${n}`);
  process.exit(0);
}
main().catch((error) => { console.error(error); process.exit(1); });
