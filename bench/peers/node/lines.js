"use strict";
// What both Node drivers share: lines of JSON on standard input and output, and the payload (see drivers/lines.py).
const readline = require("node:readline");
const { Pool } = require("pg");

const PAYLOAD_BYTES = 200;
const BATCH = 1000;
const CHECK_MS = 20;
const COUNTERS = "CREATE TABLE fan_in (task bigint PRIMARY KEY, left_over int NOT NULL) WITH (fillfactor = 50)";

function say(fields) {
  process.stdout.write(JSON.stringify(fields) + "\n");
}

function sayReady(...packages) {
  const versions = { node: process.versions.node };
  for (const name of packages) versions[name] = require(`${name}/package.json`).version;
  say({ ready: true, versions });
}

const sayCalled = (task) => say({ called: String(task), at: clock() });

// Date.now() has milliseconds only.
const clock = () => (performance.timeOrigin + performance.now()) / 1000;

function payload(number) {
  const empty = JSON.stringify({ number, text: "" }).length;
  return { number, text: "x".repeat(PAYLOAD_BYTES - empty) };
}

const payloads = (first, end, more = {}) =>
  Array.from({ length: end - first }, (_, index) => ({ ...more, ...payload(first + index) }));

// Carries out commands by their name in `do`, one after the other; ends the process with the input.
async function serve(does) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    await does[command.do](command);
  }
  process.exit(0);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Ends an installer: `fan_in` is the table whose rows count down.
async function installed(url) {
  await new Pool({ connectionString: url }).query(COUNTERS);
  say({ ready: true, versions: {} });
  process.exit(0);
}

// Carries out a producer's commands; `insert` enqueues a list, `isEmpty` is a query for whether all is done.
async function produce(url, isEmpty, insert) {
  const pool = new Pool({ connectionString: url });

  async function throughput({ count }) {
    const began = clock();
    for (let first = 0; first < count; first += BATCH) {
      await insert("single", payloads(first, Math.min(first + BATCH, count)));
    }
    while (!(await pool.query(isEmpty)).rows[0].empty) await sleep(CHECK_MS);
    say({ began, ended: clock(), count });
  }

  async function fanIn({ task, sub_tasks: size }) {
    const began = clock();
    await pool.query("INSERT INTO fan_in VALUES ($1, $2)", [task, size]);
    await insert("part", payloads(0, size, { task }));
    say({ began, task: String(task) });
  }

  sayReady();
  await serve({ throughput, fan_in: fanIn });
}

function run(roles) {
  const [role, address] = process.argv.slice(2);
  roles[role](address);
}

module.exports = { installed, produce, run, sayCalled, sayReady, serve, sleep };
