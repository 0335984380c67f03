// json-rpc-2.0 (npm) takes publications as notifications: node json_rpc_2_0_topics.cjs URL
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { JSONRPCClient, JSONRPCServer, JSONRPCServerAndClient } = require('json-rpc-2.0');
const WebSocket = require('ws');

const QUOTE = { symbol: 'AAPL', price: 150.25, timestamp: '2026-01-15T10:30:00Z' };

async function work() {
  const ws = new WebSocket(process.argv[2]);
  await once(ws, 'open');
  const both = new JSONRPCServerAndClient(new JSONRPCServer(), new JSONRPCClient(
    async (message) => ws.send(JSON.stringify(message))));
  ws.on('message', (text) => both.receiveAndSend(JSON.parse(text)));
  const told = [];
  let wake = () => {};
  both.addMethod('rpc.notification', (params) => { told.push(params); wake(); });
  const next = async () => {
    while (told.length === 0) await new Promise((done) => { wake = done; });
    return told.shift();
  };
  assert.deepStrictEqual(await both.request('rpc.subscribe', { topic: 'stock.prices.*' }), { subscribed: true });
  assert.strictEqual(await both.request('publish', ['stock.prices.AAPL', QUOTE]), 1);
  assert.deepStrictEqual(await next(), { topic: 'stock.prices.AAPL', data: QUOTE });
  for (let n = 0; n < 50; n += 1) assert.strictEqual(await both.request('publish', ['stock.prices.N', n]), 1);
  for (let n = 0; n < 50; n += 1) assert.deepStrictEqual(await next(), { topic: 'stock.prices.N', data: n });
  assert.deepStrictEqual(await both.request('rpc.unsubscribe', ['stock.prices.*']), { unsubscribed: true });
  assert.strictEqual(await both.request('publish', ['stock.prices.AAPL', QUOTE]), 0);
  ws.close();
  await once(ws, 'close');
  assert.deepStrictEqual(told, []);
  console.log('ok');
}
work().catch((error) => { console.error(error); process.exit(1); });
