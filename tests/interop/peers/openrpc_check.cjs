// Checks a document with the official meta-schema of OpenRPC: `openrpc_check.cjs FILE`. It has to be valid, and ten
// copies of it, each broken in another place, have to be refused.
'use strict';

const fs = require('fs');
const Ajv = require('ajv');
const metaSchema = require('@open-rpc/meta-schema').default;
const jsonSchema = require('@json-schema-tools/meta-schema').default;

const ajv = new Ajv({ meta: false, validateSchema: false, schemaId: 'auto', unknownFormats: 'ignore', logger: false });
ajv.addSchema({ ...jsonSchema, $schema: undefined }, 'https://meta.json-schema.tools');
const isValid = ajv.compile({ ...metaSchema, $schema: undefined });

const text = fs.readFileSync(process.argv[2], 'utf8');
const document = JSON.parse(text);
if (!isValid(document)) {
  console.error(JSON.stringify(isValid.errors, null, 1));
  process.exit(1);
}
const breaks = [
  (d) => delete d.openrpc,
  (d) => (d.openrpc = '9.9.9'),
  (d) => delete d.info,
  (d) => delete d.info.title,
  (d) => (d.info.version = 1),
  (d) => delete d.methods,
  (d) => (d.methods = {}),
  (d) => delete d.methods[0].name,
  (d) => delete d.methods[0].params,
  (d) => (d.methods[0].params[0].name = 7),
];
for (const [place, breakIt] of breaks.entries()) {
  const broken = JSON.parse(text);
  breakIt(broken);
  if (isValid(broken)) {
    console.error(`broken document ${place} passed`);
    process.exit(1);
  }
}
console.log(`ok ${breaks.length + 1}`);
