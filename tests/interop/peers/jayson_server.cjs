// jayson's TCP server, whose answers have nothing between them: node jayson_server.cjs VERSION
// Prints its port.
'use strict';
const jayson = require('jayson');
const server = new jayson.Server({
  add: (args, done) => done(null, args[0] + args[1]),
  echo: (args, done) => done(null, args),
  fail: (args, done) => done({ code: 7, message: 'failed', data: { a: 1 } }),
}, { version: Number(process.argv[2]), params: undefined });
const tcp = server.tcp();
tcp.listen(0, '127.0.0.1', () => console.log(tcp.address().port));
