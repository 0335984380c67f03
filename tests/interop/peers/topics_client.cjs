// A client of topics on ws, without a JSON-RPC library: node topics_client.cjs URL
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const WebSocket = require('ws');

const AAPL = 'stock.prices.AAPL';
const QUOTE = { symbol: 'AAPL', price: 150.25, timestamp: '2026-01-15T10:30:00Z' };
const publication = (topic, data) => ({ jsonrpc: '2.0', method: 'rpc.notification', params: { topic, data } });

async function open() {
  const ws = new WebSocket(process.argv[2]);
  const heard = [];
  let wake = () => {};
  ws.on('message', (text) => { heard.push(JSON.parse(text)); wake(); });
  await once(ws, 'open');
  const hear = async (wanted) => {
    while (heard.length === 0) await new Promise((done) => { wake = done; });
    assert.deepStrictEqual(heard.shift(), wanted);
  };
  const ask = async (method, params, end) => {
    ws.send(JSON.stringify({ jsonrpc: '2.0', method, params, id: method }));
    await hear({ jsonrpc: '2.0', ...end, id: method });
  };
  return { ws, hear, ask };
}

async function work() {
  const publisher = await open();
  const { ws, hear, ask } = await open();
  const publish = async (topic, data, receivers) => {
    await publisher.ask('publish', [topic, data], { result: receivers });
    for (let i = 0; i < receivers; i += 1) await hear(publication(topic, data));
  };
  await ask('rpc.subscribe', { topic: AAPL }, { result: { subscribed: true } });
  await publish(AAPL, QUOTE, 1);
  await ask('rpc.unsubscribe', { topic: AAPL }, { result: { unsubscribed: true } });
  await publish(AAPL, QUOTE, 0);
  await ask('rpc.subscribe', ['stock.prices.*'], { result: { subscribed: true } });
  await publish('stock.prices.MSFT', { ...QUOTE, symbol: 'MSFT' }, 1);
  await publish('stock.prices.US.MSFT', QUOTE, 0);
  await ask('rpc.subscribe', { topic: 'stock.>' }, { result: { subscribed: true } });
  // Two patterns, and one copy.
  await publish('stock.prices.MSFT', [1, { é: '€' }], 1);
  await publish('stock', QUOTE, 0);
  // Two subscriptions in one JSON-RPC batch, whose answers come in one message.
  ws.send(JSON.stringify(['x.y', 'z..'].map((topic, id) => (
    { jsonrpc: '2.0', method: 'rpc.subscribe', params: { topic }, id }))));
  const error = { code: -32602, message: 'Invalid params', data: 'a token of the topic is empty' };
  await hear([{ jsonrpc: '2.0', result: { subscribed: true }, id: 0 }, { jsonrpc: '2.0', error, id: 1 }]);
  await publish('x.y', true, 1);
  const topics = ['x.y', 'stock.>', 'none', 'stock.prices.*'];
  await ask('rpc.unsubscribe.batch', { topics }, { result: { unsubscribed: topics.filter((topic) => topic !== 'none') } });
  await publish('x.y', true, 0);
  for (const end of [ws, publisher.ws]) { end.close(); await once(end, 'close'); }
  console.log('ok');
}
work().catch((error) => { console.error(error); process.exit(1); });
