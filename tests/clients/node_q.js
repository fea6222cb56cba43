// Plays steps against a kdb+ process with node-q and prints their results as one JSON list.
//
//   node node_q.js ADDRESS STEPS
//
// ADDRESS is a port or the path of a Unix socket. A step is {"sync"|"async": function, "args": [...]},
// {"subscribe": table} on a connection of its own, or {"take": rows} of what that one received.
// In arguments {"longs": [1, 2]} and the like are node-q's typed wrappers, {"mixed": [...]} is a list of such;
// anything else is passed as JavaScript has it.
"use strict";
const nodeq = require("node-q");
const Long = require("long");

const [address, text] = process.argv.slice(2);

function argument(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const [kind, inner] = Object.entries(value)[0];
  if (kind === "mixed") return nodeq.mixedlist(inner.map(argument));
  if (kind === "long") return nodeq.long(Long.fromNumber(inner));
  if (kind === "longs") return nodeq.longs(inner.map(Long.fromNumber));
  if (kind === "timespans") return nodeq.timespans(inner.map((ms) => new Date(ms)));
  return nodeq[kind](inner);
}

function connect() {
  const where = /^\d+$/.test(address) ? { host: "127.0.0.1", port: Number(address) } : { unixSocket: address };
  return new Promise((resolve, reject) =>
    nodeq.connect({ ...where, user: "node", password: "pw" }, (err, con) => (err ? reject(err) : resolve(con))));
}

async function play(steps) {
  const publisher = await connect();
  let subscriber = null;
  const received = [];
  let wake = () => {};
  const results = [];
  for (const step of steps) {
    if (step.subscribe) {
      subscriber = await connect();
      subscriber.on("upd", (table, rows) => {
        received.push(...rows.map((row) => ({ table, ...row })));
        wake();
      });
      results.push(await new Promise((resolve) =>
        subscriber.k(".u.sub", nodeq.symbol(step.subscribe), nodeq.symbol(""), (err, schema) => resolve(err ? { error: err.message } : schema[0]))));
    } else if (step.take) {
      while (received.length < step.take) await new Promise((resolve) => (wake = resolve));
      results.push(received.splice(0));
    } else {
      const args = (step.args || []).map(argument);
      results.push(await new Promise((resolve) => {
        const done = (err, value) => resolve(err ? { error: err.message } : value === undefined ? null : value);
        if (step.sync) publisher.k(step.sync, ...args, done);
        else publisher.ks(step.async, ...args, done);
      }));
    }
  }
  return results;
}

play(JSON.parse(text)).then(
  (results) => process.stdout.write(JSON.stringify(results), () => process.exit(0)),
  (err) => { console.error(err); process.exit(1); });
