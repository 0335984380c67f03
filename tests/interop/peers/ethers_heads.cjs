// ethers follows the blocks of a server: node ethers_heads.cjs URL
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { SocketSubscriber, WebSocketProvider } = require('ethers');

const assertContiguous = (numbers) => numbers.forEach((number, i) => assert.strictEqual(number, numbers[0] + i));

// Its class for subscriptions, which gives each event as it comes.
class Heads extends SocketSubscriber {
  constructor(provider, take) { super(provider, ['newHeads']); this.take = take; }
  async _emit(provider, head) { this.take(head); }
}

async function work() {
  const provider = new WebSocketProvider(process.argv[2]);
  assert.strictEqual((await provider.getNetwork()).chainId, 31337n);
  const numbers = await new Promise((done) => {
    const told = [];
    provider.on('block', (number) => { if (told.push(number) === 15) { provider.off('block'); done(told); } });
  });
  assertContiguous(numbers);
  console.log('seen numbers');
  const block = await provider.getBlock(numbers[0]);
  assert.deepStrictEqual([block.number, block.transactions.length], [numbers[0], 0]);
  console.log('seen block');
  const heads = [];
  await new Promise((done) => {
    const subscriber = new Heads(provider, (head) => { if (heads.push(head) === 12) { subscriber.stop(); done(); } });
    subscriber.start();
  });
  assertContiguous(heads.map(({ number }) => Number(number)));
  heads.forEach((head, i) => i && assert.strictEqual(head.parentHash, heads[i - 1].hash));
  console.log('seen heads');
  // Two subscriptions at once, and an answer between their events.
  const ids = await Promise.all([1, 2].map(() => provider.send('eth_subscribe', ['newHeads'])));
  assert.notStrictEqual(ids[0], ids[1]);
  for (const id of ids) assert.strictEqual(await provider.send('eth_unsubscribe', [id]), true);
  assert.strictEqual(await provider.send('eth_unsubscribe', [ids[0]]), false);
  console.log('seen unsubscribe');
  const closed = once(provider.websocket, 'close');
  await provider.destroy();
  await closed;
  console.log('ok');
}
work().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
