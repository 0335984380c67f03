// Calls every method of the calculator with the client that @open-rpc/generator made of its document:
// `openrpc_generated.cjs CLIENT.ts URL`. Prints `ok` and the number of checks.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const ts = require('typescript');

const [source, url] = process.argv.slice(2);
const options = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2020, esModuleInterop: true };
const { outputText } = ts.transpileModule(fs.readFileSync(source, 'utf8'), { compilerOptions: options });
const compiled = path.join(path.dirname(source), 'index.cjs');
fs.writeFileSync(compiled, outputText);
const Calculator = require(compiled).default;

(async () => {
  const { hostname: host, port, pathname } = new URL(url);
  const calc = new Calculator({ transport: { type: 'http', host, port: Number(port), path: pathname } });
  assert.strictEqual(await calc.add(10, 5), 15);
  assert.strictEqual(await calc.subtract(10, 5), 5);
  assert.strictEqual(await calc.divide(10, 5), 2);
  await assert.rejects(calc.divide(1, 0), /Division by zero/);
  // The document has no word for a notification, so the client awaits an answer: `null`.
  assert.strictEqual(await calc.logCalculation('add', 15), null);
  // The client checks values by the schemas before it sends them.
  const refused = await calc.add('ten', 5).then(() => null, (errors) => errors);
  assert.ok(Array.isArray(refused) && refused.length === 1, refused);
  console.log('ok 6');
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
