// The durable run of EXA-07 on ws, without a JSON-RPC library: node durable_client.cjs URL
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const WebSocket = require('ws');

const OWN = { subscription_id: 'order-processor-1', topic: 'orders' };
const [NAME, TOPIC] = Object.values(OWN);
const [SUBSCRIBE, ACKNOWLEDGE] = ['rpc.subscribe.persistent', 'rpc.acknowledge.persistent'];
const ORDERS = [0, 1, 2, 3].map((i) => ({ order_id: `ORD-${i}`, total: 99.5, note: 'é€' }));

async function open() {
  const ws = new WebSocket(process.argv[2]);
  const heard = [];
  let wake = () => {};
  ws.on('message', (text) => { heard.push(JSON.parse(text)); wake(); });
  await once(ws, 'open');
  const next = async () => {
    while (heard.length === 0) await new Promise((done) => { wake = done; });
    return heard.shift();
  };
  const ask = async (method, params, end) => {
    ws.send(JSON.stringify({ jsonrpc: '2.0', method, params, id: method }));
    assert.deepStrictEqual(await next(), { jsonrpc: '2.0', ...end, id: method });
  };
  const message = async (sequence) => {
    const got = await next();
    assert.match(got.params.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const params = { ...OWN, sequence_id: sequence, timestamp: got.params.timestamp, data: ORDERS[sequence] };
    assert.deepStrictEqual(got, { jsonrpc: '2.0', method: 'rpc.notification.persistent', params });
  };
  return { ws, ask, message };
}

async function work() {
  const [publisher, first] = [await open(), await open()];
  await first.ask(SUBSCRIBE, OWN, { result: { ...OWN, resumed_from_sequence: 0 } });
  for (const i of [1, 2, 3]) {
    await publisher.ask('publish_durable', [TOPIC, ORDERS[i]], { result: i });
    await first.message(i);
  }
  await first.ask(ACKNOWLEDGE, { subscription_id: NAME, sequence_id: 1 }, { result: { acknowledged: true } });
  await first.ask(ACKNOWLEDGE, [NAME, 3], { result: { acknowledged: true } });
  first.ws.terminate();
  const second = await open();
  await second.ask(SUBSCRIBE, [NAME, TOPIC], { result: { ...OWN, resumed_from_sequence: 1 } });
  await second.message(2);
  const both = [OWN, { subscription_id: 'shipping-1', topic: 'shipments' }];
  const resumed = both.map(({ subscription_id }, i) => ({ subscription_id, resumed_from_sequence: 1 - i }));
  await second.ask(`${SUBSCRIBE}.batch`, { subscriptions: both }, { result: { subscriptions: resumed } });
  await second.message(2);
  const acks = [[NAME, 2], ['shipping-1', 7], ['nobody', 1]].map(([subscription_id, sequence_id]) => ({ subscription_id, sequence_id }));
  const acknowledged = acks.map((ack, i) => ({ ...ack, success: i === 0 }));
  await second.ask(`${ACKNOWLEDGE}.batch`, { acknowledgments: acks }, { result: { acknowledged } });
  for (const unsubscribed of [true, false]) await second.ask('rpc.unsubscribe.persistent', [NAME], { result: { unsubscribed } });
  for (const end of [second.ws, publisher.ws]) { end.close(); await once(end, 'close'); }
  console.log('ok');
}
work().catch((error) => { console.error(error); process.exit(1); });
