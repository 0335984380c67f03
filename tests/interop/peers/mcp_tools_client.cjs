// The MCP TypeScript SDK's client against the example mcp_tools: node mcp_tools_client.cjs COMMAND
'use strict';
const { main } = require('./mcp_example.cjs');

main(async ({ client, same, call, text }) => {
  same(client.getServerVersion(), { name: 'mcp_tools', version: '1.0.0' });
  const { tools } = await client.listTools();
  same(tools.map((tool) => tool.name), ['add', 'count_words', 'wait']);
  same(tools[0].inputSchema.required, ['a', 'b']);
  same(text(await call('add', { a: 2, b: 40 })), '42');
  same(text(await call('count_words', { text: 'äß € 😀\n four' })), '4');
  same(text(await call('wait', { milliseconds: 10 })), 'waited 10 ms');
  const steps = [];
  await call('wait', { milliseconds: 20 }, { onprogress: (step) => steps.push(step) });
  same([steps.length, steps[9]], [10, { progress: 9, total: 10, message: '18 ms of 20' }]);
  for (const wrong of [{}, { a: 1 }, { a: 1, b: 'x' }, { a: 1, b: 2, c: 3 }]) {
    same((await call('add', wrong)).isError, true);
  }
  const unknown = await call('rm', { path: '/' }).catch((error) => error);
  same([unknown.code, /unknown tool/.test(unknown.message)], [-32602, true]);
}, (log, same) => {
  // Each call is in the log, without its arguments.
  same(log.match(/^mcp_tools: "add" with \d+ bytes$/gm).length, 25);
  same(log.match(/^mcp_tools: "wait" was given up$/gm).length, 1);
  same(/mcp_tools: "rm" with 12 bytes/.test(log) && !log.includes('four'), true);
});
