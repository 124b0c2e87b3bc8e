"use strict";
// Graphile Worker: add_jobs in batches, a local queue, batched completion. node graphile.js install|worker|produce URL
// Fan-in is home-made, since it has none: a row of a table counts down in each handler, the last adds the callback.
const { makeWorkerUtils, run, Logger } = require("graphile-worker");
const { Pool } = require("pg");
const { CHECK_MS, clock, payloads, say, sayCalled, sayReady, serve, sleep } = require("./lines");

const ADD = 1000;
const COUNTERS = "CREATE TABLE fan_in (task bigint PRIMARY KEY, left_over int NOT NULL) WITH (fillfactor = 50)";
const COUNT_DOWN = "UPDATE fan_in SET left_over = left_over - 1 WHERE task = $1 RETURNING left_over";
const IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM graphile_worker._private_jobs) AS empty";
const quiet = new Logger(() => (level, message) => level === "error" && console.error(message));

// The configuration of its page on performance.
function preset(url) {
  return {
    worker: {
      connectionString: url,
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: quiet,
    },
  };
}

async function install(url) {
  const utils = await makeWorkerUtils({ preset: preset(url) });
  await utils.migrate();
  const pool = new Pool({ connectionString: url });
  await pool.query(COUNTERS);
  say({ ready: true, versions: {} });
  process.exit(0);
}

async function work(url) {
  const taskList = {
    single: async () => {},
    part: async ({ task }, helpers) => {
      const { rows } = await helpers.query(COUNT_DOWN, [task]);
      if (rows[0].left_over === 0) await helpers.addJob("callback", { task });
    },
    callback: async ({ task }) => sayCalled(task),
  };
  await run({ preset: preset(url), taskList, noHandleSignals: true });
  sayReady("graphile-worker");
  await serve({});
}

async function produce(url) {
  const pool = new Pool({ connectionString: url });
  const utils = await makeWorkerUtils({ preset: preset(url) });
  const add = (identifier, list) => utils.addJobs(list.map((payload) => ({ identifier, payload })));

  async function throughput({ count }) {
    const began = clock();
    for (let first = 0; first < count; first += ADD) {
      await add("single", payloads(first, Math.min(first + ADD, count)));
    }
    while (!(await pool.query(IS_EMPTY)).rows[0].empty) await sleep(CHECK_MS);
    say({ began, ended: clock(), count });
  }

  async function fanIn({ task, sub_tasks: size }) {
    const began = clock();
    await pool.query("INSERT INTO fan_in VALUES ($1, $2)", [task, size]);
    await add("part", payloads(0, size, { task }));
    say({ began, task: String(task) });
  }

  sayReady();
  await serve({ throughput, fan_in: fanIn });
}

const [role, address] = process.argv.slice(2);
({ install, worker: work, produce })[role](address);
