// The MCP TypeScript SDK's client against a server over stdio: node mcp_client.cjs COMMAND ARGS…
// The server is antiphon's `mcp`, alone or behind the proxy.
'use strict';
const assert = require('node:assert');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const types = require('@modelcontextprotocol/sdk/types.js');
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

async function session(capabilities, answer, work) {
  const [command, ...args] = process.argv.slice(2);
  const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
  const client = new Client({ name: 'interop', version: '1' }, { capabilities });
  client.onerror = (error) => { console.error('client error', error); process.exitCode = 1; };
  if (answer) client.setRequestHandler(...answer);
  await client.connect(transport);
  await work(client, transport);
  await client.close();
}

(async () => {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  const text = (result) => result.content[0].text;
  const roots = [types.ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///somewhere', name: 'r' }] })];
  await session({ roots: {} }, roots, async (client) => {
    same(client.getServerVersion().name, 'antiphon-mcp');
    same(client.transport._protocolVersion ?? types.LATEST_PROTOCOL_VERSION, types.LATEST_PROTOCOL_VERSION);
    await client.ping();
    const { tools } = await client.listTools();
    same(tools.map((tool) => tool.name), ['echo', 'add', 'progress', 'ask']);
    same(tools.every((tool) => tool.inputSchema.type === 'object'), true);
    const long = 'äß€😀'.repeat(100000);
    same(text(await client.callTool({ name: 'echo', arguments: { text: long } })), long);
    same(text(await client.callTool({ name: 'add', arguments: { a: 2, b: 40 } })), '42');
    const bad = await client.callTool({ name: 'add', arguments: { a: 'x' } });
    same(bad.isError, true);
    const seen = [];
    const done = await client.callTool({ name: 'progress', arguments: { steps: 5, delayMs: 5 } }, undefined,
      { onprogress: (progress) => seen.push([progress.progress, progress.total]) });
    same(text(done), '5 steps done');
    same(seen, [[1, 5], [2, 5], [3, 5], [4, 5], [5, 5]]);
    same(text(await client.callTool({ name: 'ask', arguments: {} })).includes('file:///somewhere'), true);
    const unknown = await client.callTool({ name: 'nope', arguments: {} }).catch((error) => error);
    same(unknown.code, -32602);
    const stop = new AbortController();
    const slow = client.callTool({ name: 'progress', arguments: { steps: 1000, delayMs: 20 } }, undefined,
      { signal: stop.signal }).catch((error) => error);
    setTimeout(() => stop.abort('enough'), 60);
    same((await slow) instanceof Error || (await slow) === 'enough', true);
    // After the cancel the next calls are served.
    const several = await Promise.all(Array.from({ length: 20 }, (_, i) =>
      client.callTool({ name: 'add', arguments: { a: i, b: 1 } })));
    same(several.map(text), Array.from({ length: 20 }, (_, i) => String(i + 1)));
  });
  const elicit = [types.ElicitRequestSchema, (request) =>
    ({ action: 'accept', content: { answer: request.params.message } })];
  await session({ elicitation: {} }, elicit, async (client) => {
    const asked = text(await client.callTool({ name: 'ask', arguments: { question: 'why?' } }));
    same(JSON.parse(asked), { action: 'accept', content: { answer: 'why?' } });
  });
  const sample = [types.CreateMessageRequestSchema, () =>
    ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'because' } })];
  await session({ sampling: {} }, sample, async (client) => {
    same(text(await client.callTool({ name: 'ask', arguments: {} })).includes('because'), true);
  });
  await session({}, null, async (client) => {
    same((await client.callTool({ name: 'ask', arguments: {} })).isError, true);
  });
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
