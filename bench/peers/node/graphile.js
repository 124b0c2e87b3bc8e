"use strict";
// Graphile Worker: add_jobs in batches, a local queue, batched completion. node graphile.js install|worker|produce URL
// Fan-in is home-made, since it has none: a row of a table counts down in each handler, the last adds the callback.
const { makeWorkerUtils, run, Logger } = require("graphile-worker");
const { installed, produce, run: runRole, sayCalled, sayReady, serve } = require("./lines");

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
  await installed(url);
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

async function add(url) {
  const utils = await makeWorkerUtils({ preset: preset(url) });
  await produce(url, IS_EMPTY, (identifier, list) =>
    utils.addJobs(list.map((payload) => ({ identifier, payload }))));
}

runRole({ install, worker: work, produce: add });
