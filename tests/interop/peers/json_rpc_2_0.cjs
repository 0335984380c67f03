// json-rpc-2.0 (npm) as client and server at once, over the stdio of a child, a message a line.
//   node json_rpc_2_0.cjs COMMAND ARGS…
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const { JSONRPCClient, JSONRPCServer, JSONRPCServerAndClient } = require('json-rpc-2.0');
setTimeout(() => { console.error('timed out'); process.exit(1); }, 20000).unref();
(async () => {
  const [command, ...args] = process.argv.slice(2);
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const write = (message) => { child.stdin.write(JSON.stringify(message) + '\n'); return Promise.resolve(); };
  const both = new JSONRPCServerAndClient(new JSONRPCServer(), new JSONRPCClient(write));
  const ticks = [];
  both.addMethod('tick', ([i]) => { ticks.push(i); });
  both.addMethod('who', ([i]) => ['me', i]);
  readline.createInterface({ input: child.stdout }).on('line', (line) => both.receiveAndSend(JSON.parse(line)));
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  same(await both.request('subtract', [42, 23]), 19);
  same(await both.request('subtract', { minuend: 42, subtrahend: 23 }), 19);
  same((await both.request('nope', []).catch((e) => e)).code, -32601);
  const fail = await both.request('fail', { code: 5, message: 'm', data: [1] }).catch((e) => e);
  same([fail.code, fail.message, fail.data], [5, 'm', [1]]);
  same(await both.request('emit', [3]), 3);
  same(ticks, [0, 1, 2]);
  same(await both.request('callback', ['who', [4]]), ['me', 4]);
  both.notify('update', [1]);
  same(await both.request('count'), 1);
  const batch = await both.client.requestAdvanced([
    { jsonrpc: '2.0', id: 'a', method: 'sum', params: [1, 2] }, { jsonrpc: '2.0', id: 'b', method: 'nope' }]);
  same(batch.map((item) => item.result ?? item.error.code), [3, -32601]);
  child.stdin.end();
  same(await new Promise((done) => child.once('exit', done)), 0);
  console.log(`ok ${n}`);
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
