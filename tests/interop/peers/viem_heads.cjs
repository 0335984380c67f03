// viem follows the blocks of a server: node viem_heads.cjs URL
'use strict';
const assert = require('node:assert');
const { createPublicClient, webSocket } = require('viem');

// Collects what `watch` tells until there are so many, and stops watching.
const collect = (count, watch) => new Promise((done, failed) => {
  const told = [];
  const stop = watch((one) => {
    told.push(one);
    if (told.length === count) { stop(); done(told); }
  }, failed);
});
const assertContiguous = (numbers) => numbers.forEach((number, i) => assert.strictEqual(number, numbers[0] + BigInt(i)));

async function work() {
  const client = createPublicClient({ transport: webSocket(process.argv[2], { reconnect: false }) });
  assert.strictEqual(await client.getChainId(), 31337);
  // Whole heads: what it has for subscriptions of any kind.
  const heads = [];
  let enough;
  const done = new Promise((resolve) => { enough = resolve; });
  const { subscriptionId, unsubscribe } = await client.transport.subscribe({
    params: ['newHeads'],
    onData: ({ result }) => { heads.push(result); if (heads.length === 15) enough(); },
    onError: (error) => { throw error; },
  });
  await done;
  assert.match(subscriptionId, /^0x[0-9a-f]+$/);
  assertContiguous(heads.map(({ number }) => BigInt(number)));
  heads.forEach((head, i) => i && assert.strictEqual(head.parentHash, heads[i - 1].hash));
  assert.strictEqual((await unsubscribe()).result, true);
  console.log('seen heads');
  const numbers = await collect(12, (onBlockNumber, onError) => client.watchBlockNumber({ onBlockNumber, onError }));
  assertContiguous(numbers);
  console.log('seen numbers');
  // With each head it asks for the block.
  const blocks = await collect(12, (onBlock, onError) => client.watchBlocks({ onBlock, onError }));
  assertContiguous(blocks.map(({ number }) => number));
  blocks.forEach((block, i) => i && assert.strictEqual(block.parentHash, blocks[i - 1].hash));
  assert.strictEqual(blocks[1].timestamp, blocks[0].timestamp + 1n);
  console.log('seen blocks');
  await (await client.transport.getRpcClient()).close();
  console.log('ok');
}
work().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
