// jayson's TCP client against `antiphon-peer server tcp+json://…`: node jayson_client.cjs PORT
'use strict';
const assert = require('node:assert');
const jayson = require('jayson/promise');
const port = Number(process.argv[2]);
setTimeout(() => { console.error('timed out'); process.exit(1); }, 20000).unref();
(async () => {
  const client = jayson.Client.tcp({ host: '127.0.0.1', port });
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  same((await client.request('sum', [1, 2, 4])).result, 7);
  same((await client.request('subtract', { minuend: 42, subtrahend: 23 })).result, 19);
  same((await client.request('nope', [])).error.code, -32601);
  await client.request('update', [1], null);
  const batch = await client.request([
    client.request('sum', [1, 2], undefined, false), client.request('get_data', [], undefined, false),
  ]);
  same(batch.map((item) => item.result), [3, ['hello', 5]]);
  const text = 'äß€😀'.repeat(50000);
  same((await client.request('echo', [text])).result, [text]);
  while ((await client.request('count', [])).result < 1) await new Promise((done) => setTimeout(done, 10));
  console.log(`ok ${n}`);
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
