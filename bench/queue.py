#!/usr/bin/env python3
"""bench/queue.py - jobs put, taken and done: rowlock, its raw statements, and other queues.

Started by bench/queue, which has the servers. The environment: BENCH_MARIADB_AT, BENCH_REDIS_ALWAYS_AT,
... and _PIDS of each; QUEUE_CLIENT, the program of bench/queue_client.c; NODE_PATH for the other clients.

A round of `speed` puts so many jobs, then works through them: in one process with batches of 16 (or what
the other system has for it: 16 at the same time), or in 8 processes one after the other in each. The time
is from the first job's begin to the last job's end, of the putting and of the working, added.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {"batch": (1, 16), "single": (8, 1)}  # processes, jobs of one at a time
LIMIT_S = 300


def client(system):
    return lambda at: [os.environ["QUEUE_CLIENT"], system, at]


def script(name):
    return lambda at: ["node", os.path.join(HERE, name), "-", at]


# id: (what it is called, its server, its command, whether what was done is on the disk)
SYSTEMS = {
    "rowlock": ("rowlock", "MARIADB", client("rowlock"), True),
    "raw": ("raw: SKIP LOCKED, UPDATE, COMMIT; DELETE", "MARIADB", client("raw"), True),
    "raw-keys": ("raw: the same, with indexes as rowlock's", "MARIADB", client("raw-keys"), True),
    "raw-with-done": ("raw: the same, DELETE in the next take's transaction", "MARIADB",
                      client("raw-with-done"), True),
    "raw-two": ("raw: SELECT, by id SKIP LOCKED, UPDATE, COMMIT; DELETE", "MARIADB", client("raw-two"), True),
    "raw-two-with-done": ("raw: the same, DELETE in the next take's transaction", "MARIADB",
                          client("raw-two-with-done"), True),
    "raw-update": ("raw: UPDATE ... LIMIT, SELECT; DELETE", "MARIADB", client("raw-update"), True),
    "raw-swap": ("raw: SELECT, compare-and-swap; DELETE", "MARIADB", client("raw-swap"), True),
    "bullmq-always": ("BullMQ, Redis appendfsync always", "REDIS_ALWAYS", script("queue_bullmq.js"), True),
    "bullmq-memory": ("BullMQ, Redis in memory", "REDIS_MEMORY", script("queue_bullmq.js"), False),
    "graphile": ("graphile-worker, PostgreSQL", "POSTGRES", script("queue_graphile.js"), True),
}
DEFAULT = ["rowlock", "raw", "raw-with-done", "bullmq-always", "bullmq-memory", "graphile"]
TICKS = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """utime, stime, cutime, cstime and the parent of a process; None: there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return [int(field) for field in fields[11:15]], int(fields[1])


def server_cpu_s(pids):
    """Of these processes, their children, and the children that have ended."""
    ticks = 0
    for pid in os.listdir("/proc"):
        found = stat_of(pid) if pid.isdigit() else None
        if not found:
            continue
        if pid in pids:
            ticks += sum(found[0])
        elif str(found[1]) in pids:
            ticks += sum(found[0][:2])
    return ticks / TICKS


class Process:
    """One client. Its lines: see queue_client.c."""

    def __init__(self, command):
        self.command = command
        # pylint: disable-next=consider-using-with
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.expect("ready")
        self.counted = 0
        self.ended = None
        self.gone = False

    def expect(self, word):
        line = self.child.stdout.readline().split()
        if not line or line[0] != word:
            sys.exit(f"{' '.join(self.command)}: {' '.join(line) or 'ended'}, not '{word}'")
        return line

    def say(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def follow(self, changed):
        """Reads its counts, in a thread of its own, until it ends."""
        for line in self.child.stdout:
            words = line.split()
            if words[0] == "count":
                self.counted = int(words[1])
            else:
                self.ended = words[1:]
            with changed:
                changed.notify_all()
        with changed:
            self.gone = True
            changed.notify_all()

    def end(self):
        self.child.stdin.close()
        self.child.wait(LIMIT_S)
        if self.child.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: exit status {self.child.returncode}")


class Crew:
    """Several clients that begin together."""

    def __init__(self, command, count):
        self.members = [Process(command) for _ in range(count)]
        self.changed = threading.Condition()
        self.threads = []

    def begin(self):
        for member in self.members:
            member.say("go")
        self.threads = [threading.Thread(target=m.follow, args=(self.changed,)) for m in self.members]
        for thread in self.threads:
            thread.start()

    def await_jobs(self, count):
        end = time.monotonic() + LIMIT_S
        with self.changed:
            while sum(m.counted for m in self.members) < count:
                if any(m.gone for m in self.members) or not self.changed.wait(end - time.monotonic()):
                    sys.exit(f"{' '.join(self.members[0].command)}: not all jobs were done within {LIMIT_S} s")

    def end(self):
        """Jobs, seconds and the clients' processor seconds; how late they were (us)."""
        for member in self.members:
            member.end()
        for thread in self.threads:
            thread.join()
        ends = [m.ended for m in self.members if m.ended and int(m.ended[0]) > 0]
        if not ends:
            return {"jobs": 0, "seconds": 0, "client_cpu_s": 0, "late_us": [0, 0, 0]}
        seconds = (max(int(e[2]) for e in ends) - min(int(e[1]) for e in ends)) / 1e9
        return {
            "jobs": sum(int(e[0]) for e in ends),
            "seconds": seconds,
            "client_cpu_s": sum(int(m.ended[3]) for m in self.members) / 1e6,
            "late_us": [float(number) for number in ends[0][4:7]],
        }


class System:
    def __init__(self, key):
        self.key = key
        self.name, server, command, self.durable = SYSTEMS[key]
        self.at = os.environ[f"BENCH_{server}_AT"]
        self.pids = os.environ[f"BENCH_{server}_PIDS"].split()
        self.command = command(self.at)

    def prepare(self):
        subprocess.run([*self.command, "prepare"], check=True)

    def crew(self, count, *words):
        return Crew([*self.command, *map(str, words)], count)

    def put(self, processes, batch, jobs):
        crew = self.crew(processes, "put", batch, jobs // processes)
        crew.begin()
        for thread in crew.threads:
            thread.join()
        return crew.end()

    def work(self, processes, batch, jobs):
        crew = self.crew(processes, "work", batch)
        crew.begin()
        crew.await_jobs(jobs)
        return crew.end()


def measure_speed(system, shape, jobs):
    processes, batch = SHAPES[shape]
    system.prepare()
    cpu = server_cpu_s(system.pids)
    put = system.put(processes, batch, jobs)
    work = system.work(processes, batch, jobs)
    if work["jobs"] != jobs:
        sys.exit(f"{system.key}: {work['jobs']} jobs were done of {jobs}")
    seconds = put["seconds"] + work["seconds"]
    return {
        "jobs_per_second": jobs / seconds,
        "put_per_second": jobs / put["seconds"],
        "done_per_second": jobs / work["seconds"],
        "client_us": (put["client_cpu_s"] + work["client_cpu_s"]) / jobs * 1e6,
        "server_us": (server_cpu_s(system.pids) - cpu) / jobs * 1e6,
    }


def measure_start(system, count, gap_ms, delay_ms):
    """How late jobs start at an idle worker."""
    system.prepare()
    worker = system.crew(1, "work", 1)
    worker.begin()
    time.sleep(1)
    pacer = system.crew(1, "pace", count, gap_ms, delay_ms)
    pacer.begin()
    worker.await_jobs(count)
    pacer.end()
    p50, p99, most = worker.end()["late_us"]
    return {"p50_ms": p50 / 1000, "p99_ms": p99 / 1000, "most_ms": most / 1000}


def server_percent(system, seconds):
    """Of a core, during so many seconds."""
    cpu, start = server_cpu_s(system.pids), time.monotonic()
    time.sleep(seconds)
    return (server_cpu_s(system.pids) - cpu) / (time.monotonic() - start) * 100


def measure_idle(system, workers, seconds):
    """What the server costs with nobody there; with workers that begin to wait; and once they wait: those
    behind the first one look less and less often, for 13 s."""
    system.prepare()
    floor = server_percent(system, seconds)
    os.environ["QUEUE_IDLE"] = "1"
    crew = system.crew(workers, "work", 1)
    crew.begin()
    time.sleep(3)
    first = server_percent(system, 10)
    time.sleep(2)
    percent = server_percent(system, seconds)
    for member in crew.members:
        member.child.kill()
        member.child.wait()
    del os.environ["QUEUE_IDLE"]
    return {"server_percent": percent, "first_percent": first, "floor_percent": floor}


def median(rounds):
    return {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}


def loads():
    with open("/proc/loadavg", encoding="ascii") as file:
        return file.read().split()[0]


def speed(systems, options, rows):
    for shape in options.shapes:
        figures = {system.key: [] for system in systems}
        for number in range(options.rounds):
            for system in systems:
                figures[system.key].append(measure_speed(system, shape, options.jobs))
                print(f"{shape} {number + 1}/{options.rounds} {system.key}: "
                      f"{figures[system.key][-1]['jobs_per_second']:.0f} jobs/s (load {loads()})",
                      file=sys.stderr)
        for system in systems:
            rows.append({"part": "speed", "shape": shape, "system": system.key, **median(figures[system.key]),
                         "rounds": [r["jobs_per_second"] for r in figures[system.key]]})


def others(systems, options, rows):
    for system in systems:
        if system.key.startswith("raw"):
            continue
        if "latency" in options.parts:
            rows.append({"part": "latency", "system": system.key, **measure_start(system, 200, 25, 0)})
        if "latency" in options.parts and system.key == "rowlock":  # it lets the server look by then
            rows.append({"part": "rested", "system": system.key, **measure_start(system, 120, 330, 0)})
        if "delay" in options.parts:
            rows.append({"part": "delay", "system": system.key, **measure_start(system, 100, 20, 500)})
        if "idle" in options.parts and system.key == "rowlock":
            rows.append({"part": "idle", "system": system.key, **measure_idle(system, 100, 20)})


def show(rows):
    for row in rows:
        name = SYSTEMS[row["system"]][0]
        if row["part"] == "speed":
            print(f"{row['shape']:7} {name:56} {row['jobs_per_second']:8.0f} jobs/s "
                  f"(put {row['put_per_second']:.0f}, done {row['done_per_second']:.0f}); processor time of a job: "
                  f"clients {row['client_us']:.0f} us, server {row['server_us']:.0f} us")
        elif row["part"] == "idle":
            print(f"idle    {name:56} {row['server_percent']:.2f} % of a core "
                  f"({row['first_percent']:.2f} % from 3 to 13 s after they began to wait; "
                  f"{row['floor_percent']:.2f} % with nobody there)")
        else:
            print(f"{row['part']:7} {name:56} p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms, "
                  f"at most {row['most_ms']:.1f} ms")


def targets(rows):
    """What issue and docs/performance.md want; true: all of it that was measured."""
    good = True

    def want(what, is_met):
        nonlocal good
        good &= is_met
        print(f"{'met   ' if is_met else 'MISSED'} {what}")

    speeds = {(r["shape"], r["system"]): r["jobs_per_second"] for r in rows if r["part"] == "speed"}
    for shape in SHAPES:
        ours = speeds.get((shape, "rowlock"))
        if ours is None:
            continue
        if (shape, "raw") in speeds:
            share = ours / speeds[shape, "raw"]
            want(f"{shape}: {share:.2f} of the raw statements (0.85)", share >= 0.85)
        for key, (name, _, _, durable) in SYSTEMS.items():
            if durable and not key.startswith("r") and (shape, key) in speeds:
                want(f"{shape}: {ours / speeds[shape, key]:.2f} times {name} (1)", ours > speeds[shape, key])
    for row in rows:
        if row["system"] != "rowlock":
            continue
        if row["part"] in ("latency", "rested"):
            want(f"{row['part']}, put to start: p50 {row['p50_ms']:.1f} ms (5), p99 {row['p99_ms']:.1f} ms (20)",
                 row["p50_ms"] <= 5 and row["p99_ms"] <= 20)
        if row["part"] == "delay":
            want(f"a delayed job starts {row['most_ms']:.1f} ms late at most (50)", row["most_ms"] < 50)
        if row["part"] == "idle":
            cost = row["server_percent"] - row["floor_percent"]
            want(f"100 idle workers: {cost:.2f} % of a core (2)", cost < 2)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", default=",".join(DEFAULT))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--parts", default="speed,latency,delay,idle")
    parser.add_argument("--jobs", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.shapes = options.shapes.split(",")
    options.parts = options.parts.split(",")
    wanted = options.systems.split(",")
    skipped = [key for key in wanted if f"BENCH_{SYSTEMS[key][1]}_AT" not in os.environ]
    systems = [System(key) for key in wanted if key not in skipped]
    for key in skipped:
        print(f"{key} is left out: its server is not there", file=sys.stderr)
    rows = []
    before = loads()
    if "speed" in options.parts:
        speed(systems, options, rows)
    others(systems, options, rows)
    print(f"load before {before}, after {loads()}; {options.jobs} jobs a round, {options.rounds} rounds, medians")
    show(rows)
    good = targets(rows)
    if options.out:
        with open(options.out, "w", encoding="ascii") as file:
            json.dump({"load": before, "jobs": options.jobs, "rounds": options.rounds, "rows": rows}, file, indent=1)
    sys.exit(0 if good else 1)


main()
