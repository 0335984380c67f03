// The MCP TypeScript SDK's client over HTTP against the example mcp_http: node mcp_http_client.cjs URL. Prints how many
// checks were made.
'use strict';
const assert = require('node:assert');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

async function run(url) {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
  client.onerror = (error) => { console.error('client error', error); process.exitCode = 1; };
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  same(transport.protocolVersion, '2025-11-25');
  same(client.getServerVersion().name, 'antiphon-example');
  await client.ping();
  same((await client.listTools()).tools.map((tool) => tool.name), ['add']);
  const call = (name, args) => client.callTool({ name, arguments: args });
  same((await call('add', { a: 2, b: 40 })).content, [{ type: 'text', text: '42' }]);
  same((await call('add', { a: 'x' })).isError, true);
  same((await call('rm', {}).catch((error) => error)).code, -32602);
  const heard = [];
  const onprogress = (step) => heard.push(step);
  const last = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }, undefined, { onprogress });
  same([heard, last.content[0].text], [[{ progress: 1, total: 2 }], '3']);
  const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('add', { a: i, b: 0.5 })));
  same(sums.map((one) => one.content[0].text), Array.from({ length: 20 }, (_, i) => String(i + 0.5)));
  await client.close();
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
}

run(process.argv[2]).catch((error) => { console.error(error); process.exit(1); });
