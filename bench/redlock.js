// bench/redlock.js SOCKETS - one client of the Node package `redlock`, set up as its README says: a client of the
// package `redis` for each server, no option changed but one: a server that is not there answers with an error at once
// (else node_redis keeps what it is to be told for as long as that server is away, and Redlock waits for it).
//
// It reads lines, and answers each with one: "lock NAME", "unlock", "nothing" (what it costs to ask this process).
// SOCKETS: the servers' sockets, commas between them.
const readline = require('readline');
const redis = require('redis');
const Redlock = require('redlock');

const TTL_MS = 30000;
const clients = process.argv[2].split(',').map((path) =>
    redis.createClient({ path, enable_offline_queue: false }));
for (const client of clients) client.on('error', () => {});

const redlock = new Redlock(clients, {
    driftFactor: 0.01,
    retryCount: 10,
    retryDelay: 200,
    retryJitter: 200,
});
redlock.on('clientError', () => {});

let lock = null;
async function obey(line) {
    const [verb, name] = line.split(' ');
    if (verb === 'lock') lock = await redlock.lock(name, TTL_MS);
    if (verb === 'unlock') await lock.unlock();
}

// One line at a time: the next is sent when this one was answered.
readline.createInterface({ input: process.stdin }).on('line', (line) => {
    obey(line).then(() => process.stdout.write('ok\n'),
        (error) => process.stdout.write(`${String(error.message).replace(/\n/g, ' ')}\n`));
}).on('close', () => process.exit(0));
