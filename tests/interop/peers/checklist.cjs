// The points of ../checklist.py for clients in JavaScript: each prints `seen POINT` once it held.
//
// A client is an object: `call(method, params)` gives the result or throws the error object,
// `notify(method, params)`, and, where the library has them, `batch(items)` (`{result}` or
// `{error}` for each item that is no notification), `cancelled(method, params)` (the error of a
// call that was cancelled) and `serve(method, function)`.
'use strict';
const assert = require('node:assert');

const TEXT = 'äß€😀'.repeat(100000);
const TIME_MAX = 25000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const thrown = (promise) => promise.then(
  (result) => { throw new Error(`a result instead of an error: ${JSON.stringify(result)}`); },
  ({ code, message, data }) => ({ code, message, data }));

const STEPS = {
  async position(client) {
    assert.deepStrictEqual(await client.call('subtract', [42, 23]), 19);
  },
  async name(client) {
    assert.deepStrictEqual(await client.call('subtract', { subtrahend: 23, minuend: 42 }), 19);
  },
  async error(client) {
    const error = { code: 7, message: 'failed', data: { x: [1, 'é€'] } };
    assert.deepStrictEqual(await thrown(client.call('fail', error)), error);
    assert.strictEqual((await thrown(client.call('nope', []))).code, -32601);
  },
  async notification(client) {
    const before = await client.call('count', []);
    for (let i = 0; i < 3; i += 1) await client.notify('update', [i]);
    for (const end = Date.now() + 5000; await client.call('count', []) !== before + 3;) {
      assert(Date.now() < end, 'the notifications were not counted');
      await sleep(10);
    }
  },
  async batch(client) {
    const answers = await client.batch([
      { method: 'subtract', params: [5, 3] }, { method: 'update', params: [1], notify: true },
      { method: 'nope', params: [] }, { method: 'echo', params: ['é'] }]);
    assert.deepStrictEqual(
      [answers.length, answers[0].result, answers[1].error.code, answers[2].result],
      [3, 2, -32601, ['é']]);
  },
  async order(client) {
    const ended = [], calls = [];
    for (let i = 0; i < 50; i += 1) {
      const both = [client.call('sleep', [400 - 8 * i]), client.call('echo', [i])];
      both.forEach((call, k) => call.then(() => ended.push(2 * i + k)));
      calls.push(...both);
    }
    const wanted = Array.from({ length: 100 }, (_, i) => (i % 2 ? [(i - 1) / 2] : 'slept'));
    assert.deepStrictEqual(await Promise.all(calls), wanted);
    assert(ended.indexOf(0) > 0, `answered in the order of the calls: ${ended}`);
  },
  async text(client) {
    assert.deepStrictEqual(await client.call('echo', [TEXT]), [TEXT]);
  },
  async cancel(client) {
    assert.strictEqual((await client.cancelled('sleep', [9000])).code, -32800);
    assert.deepStrictEqual(await client.call('echo', ['after']), ['after']);
  },
  async back(client) {
    client.serve('who', (...given) => ['me', 'é€', given]);
    const answer = await client.call('callback', ['who', ['q']]);
    assert.deepStrictEqual(answer.slice(0, 2), ['me', 'é€']);
    assert(JSON.stringify(answer[2]).includes('"q"'), JSON.stringify(answer));
  },
};

// Runs `open()`, which gives a client, and then the points; ends the process.
function main(open, points) {
  setTimeout(() => { console.error('timed out'); process.exit(1); }, TIME_MAX).unref();
  (async () => {
    const client = await open();
    for (const point of points) {
      await STEPS[point](client);
      console.log(`seen ${point}`);
    }
    if (client.end) await client.end();
    console.log('ok');
    process.exit(0);
  })().catch((error) => { console.error(error); process.exit(1); });
}

module.exports = { main };
