// Flows in both directions on ws, without a JSON-RPC library: node flows_client.cjs URL
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const WebSocket = require('ws');

const [NEXT, CANCEL] = ['nextFlowValue', 'cancelFlow'].map((name) => `kotlinx.rpc.jsonrpc.internal.${name}`);
const COMPLETED = { code: -32001, message: 'Flow completed' };

async function work() {
  const ws = new WebSocket(process.argv[2]);
  const heard = [];
  let wake = () => {};
  ws.on('message', (text) => { heard.push(JSON.parse(text)); wake(); });
  await once(ws, 'open');
  const hear = async (wanted) => {
    while (heard.length === 0) await new Promise((done) => { wake = done; });
    assert.deepStrictEqual(heard.shift(), { jsonrpc: '2.0', ...wanted });
  };
  const say = (message) => ws.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const ask = async (method, params, end) => {
    say({ method, params, id: method });
    await hear({ ...end, id: method });
  };

  // Pulled item by item, to its end; and one that is cancelled early.
  await ask('count_to', [2], { result: 1 });
  await ask('count_to', { end: 1000 }, { result: 2 });
  for (const [flow, item] of [[1, 1], [2, 1], [1, 2]]) await ask(NEXT, [flow], { result: item });
  await ask(NEXT, [1], { error: COMPLETED });
  await ask(CANCEL, { flow: 2 }, { result: null });
  await ask(CANCEL, [2], { result: null });
  await ask(NEXT, [3], { error: { code: -32602, message: 'Unknown flow' } });

  // Two flows in the other direction: one ends and one fails.
  const failed = { code: 1001, message: 'no more' };
  for (const [flow, first, ends, sum] of [
    [1, 1, [{ result: 20 }, { result: 22 }, { error: COMPLETED }], { result: 42 }],
    [2, 4, [{ result: 1 }, { error: failed }], { error: failed }],
  ]) {
    say({ method: 'sum_flow', params: { numbers: flow }, id: flow });
    for (const [at, end] of ends.entries()) {
      await hear({ method: NEXT, params: [flow], id: first + at });
      say({ ...end, id: first + at });
    }
    await hear({ ...sum, id: flow });
  }
  await ask('sum_flow', [1.5], { error: { code: -32602, message: 'Invalid params' } });
  ws.close();
  await once(ws, 'close');
  console.log('ok');
}
work().catch((error) => { console.error(error); process.exit(1); });
