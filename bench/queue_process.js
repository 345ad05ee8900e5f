// What the clients of other queues share: bench/queue_client.c has the words that they speak.
'use strict';
const readline = require('node:readline');

const PAYLOAD = 200;
const REPORT_MS = 20;
const lines = readline.createInterface({ input: process.stdin });

const nowNs = () => process.hrtime.bigint();

// A text that begins with when it was to start.
function payload(delayMs = 0) {
  return `${nowNs() + BigInt(delayMs) * 1000000n} `.padEnd(PAYLOAD, 'x');
}

const line = () => new Promise((resolve) => { lines.once('line', resolve); });
const stdinEnd = new Promise((resolve) => { lines.once('close', resolve); });
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// One run of a role. `queue`: prepare(), connect(), put(payloads), putLater(payload, delayMs),
// work(batch, started, done) (begins; started(payload) and done() for each job), close().
async function main(queue) {
  const [role, ...words] = process.argv.slice(4);
  const numbers = words.map(Number);
  if (role === 'prepare') {
    await queue.prepare();
    process.exit(0);
  }
  await queue.connect();
  console.log('ready');
  await line();
  const cpu = process.cpuUsage();
  let first = nowNs();
  let last = first;
  let count = 0;
  const late = [];
  if (role === 'put') {
    const [batch, total] = numbers;
    for (; count < total; count += batch) {
      await queue.put(Array.from({ length: batch }, () => payload()));
    }
    last = nowNs();
  } else if (role === 'pace') {
    const [total, gapMs, delayMs] = numbers;
    for (; count < total; count++) {
      await sleep(gapMs);
      await queue.putLater(payload(delayMs), delayMs);
    }
  } else {
    let told = 0;
    let begun = 0;
    const report = setInterval(() => {
      if (told !== count) console.log(`count ${count}`);
      told = count;
    }, REPORT_MS);
    await queue.work(numbers[0], (text) => {
      if (begun++ === 0) first = nowNs();
      late.push(Number(nowNs() - BigInt(text.split(' ', 1)[0])) / 1000);
    }, () => {
      count++;
      last = nowNs();
    });
    await stdinEnd;
    clearInterval(report);
  }
  const used = process.cpuUsage(cpu);
  late.sort((a, b) => a - b);
  const at = (part) => (late.length ? late[Math.min(late.length - 1, Math.floor(late.length * part))] : 0);
  console.log(`end ${count} ${first} ${last} ${used.user + used.system} `
    + `${at(0.5).toFixed(0)} ${at(0.99).toFixed(0)} ${at(1).toFixed(0)}`);
  await queue.close();
  process.exit(0);
}

module.exports = { main, at: process.argv[3] };
