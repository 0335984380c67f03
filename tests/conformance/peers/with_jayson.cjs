// The server that README.md describes, by jayson (npm): one message a line on standard input and output.
'use strict';
const readline = require('node:readline');
const jayson = require('jayson');

const nothing = (params, done) => done(null, null);
const server = new jayson.Server({
  subtract: (params, done) => done(null, Array.isArray(params) ? params[0] - params[1] : params.minuend - params.subtrahend),
  sum: (params, done) => done(null, params.reduce((sum, number) => sum + number, 0)),
  get_data: (params, done) => done(null, ['hello', 5]),
  echo: (params, done) => done(null, params),
  update: nothing,
  notify_hello: nothing,
  notify_sum: nothing,
});
// The library takes text, so bytes that are not UTF-8 are replaced.
readline.createInterface({ input: process.stdin, crlfDelay: Infinity }).on('line', (line) => {
  if (line.trim()) server.call(line, (error, success) => {
    if (error || success) process.stdout.write(JSON.stringify(error || success) + '\n');
  });
});
