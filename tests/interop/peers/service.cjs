// The methods of tests/peer/README.md that a foreign server in JavaScript offers: each takes the
// params as they came and gives the result, or throws the error object.
'use strict';
let count = 0;
const counted = async () => { count += 1; return null; };
const invalid = () => ({ code: -32602, message: 'Invalid params' });

module.exports = {
  async subtract(params) {
    const [a, b] = Array.isArray(params) ? params : [params.minuend, params.subtrahend];
    if (typeof a !== 'number' || typeof b !== 'number') throw invalid();
    return a - b;
  },
  async echo(params) { return params ?? null; },
  async fail({ code, message, data }) { throw { code, message, data }; },
  async sleep([ms] = [0]) { await new Promise((done) => setTimeout(done, ms)); return 'slept'; },
  update: counted,
  notify_hello: counted,
  notify_sum: counted,
  async count() { return count; },
};
