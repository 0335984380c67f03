// The MCP TypeScript SDK's client against the example server: node mcp_example_client.cjs COMMAND
'use strict';
const { main } = require('./mcp_example.cjs');

main(async ({ client, same, call, text }) => {
  same(client.getServerVersion().name, 'antiphon-example');
  same((await client.listTools()).tools.map((tool) => tool.name), ['add', 'wait']);
  const waits = await Promise.all([30, 20, 10].map((milliseconds) => call('wait', { milliseconds })));
  same(waits.map(text), ['waited', 'waited', 'waited']);
  for (const wrong of [{}, { a: 1 }, { a: 1, b: 'x' }, { a: [], b: 1 }]) {
    same((await call('add', wrong)).isError, true);
  }
  same((await call('wait', { milliseconds: 60001 })).isError, true);
  same((await call('rm', { path: '/' }).catch((error) => error)).code, -32602);
}, (log, same) => {
  // What was run, what was refused, and what does not exist is in the log.
  same(log.match(/mcp: audit: add .* runs/g).length, 20);
  same(log.match(/mcp: audit: .* is refused/g).length, 5);
  same(/mcp: audit: "rm" was called and is no tool/.test(log), true);
});
