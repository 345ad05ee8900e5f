#!/usr/bin/env python3
"""bench/report.py - what rowlock-bench measured, for people.

   report.py collect RAW OUT     RAW with the machine and the servers' versions, into OUT
   report.py text FILE           tables and targets, for a terminal
   report.py markdown FILE       the same for docs/performance.md
   report.py svg FILE            the picture
   report.py docs FILE DIR       all of it into DIR: performance.md (between its two marks), the
                                 medians in performance.json, and performance.svg; of a disk that
                                 was made slower the tables alone, between marks of their own

The figures of a row are the medians of its rounds. A ratio of two systems is the median of the
rounds' ratios: the two were measured beside each other in each.
"""

import json
import math
import os
import platform
import re
import statistics
import sys
from html import escape

SETTINGS = ('rowlock as it is by default: release build, history on (a hold of less than 1 s is counted; "no history" '
            'rows have it off). MariaDB: innodb_flush_log_at_trx_commit=1, no binlog.')
SERVER_OF = {'redis-memory': 'Redis', 'redis-always': 'Redis', 'zookeeper': 'ZooKeeper', 'etcd': 'etcd',
             'redlock-memory': 'Redis', 'redlock-always': 'Redis'}


# ------------------------------------------------------------------- the file

def first_line(path, pattern):
    try:
        with open(path, encoding='utf-8') as file:
            match = re.search(pattern, file.read(), re.M)
            return match.group(1).strip('"') if match else None
    except OSError:
        return None


def machine():
    memory = first_line('/proc/meminfo', r'^MemTotal:\s+(\d+)')
    return {
        'cpu': first_line('/proc/cpuinfo', r'^model name\s*:\s*(.+)$') or platform.machine(),
        'cores': len(os.sched_getaffinity(0)),
        'memory_gib': round(int(memory) / 2**20, 1) if memory else None,
        'kernel': platform.release().split('-')[0],
        'system': first_line('/etc/os-release', r'^PRETTY_NAME=(.+)$') or platform.system(),
    }


def from_environment(suffix):
    """{'redis-memory': ...} of BENCH_REDIS_MEMORY_<suffix>."""
    return {key[6:-len(suffix) - 1].lower().replace('_', '-'): value
            for key, value in sorted(os.environ.items())
            if key.startswith('BENCH_') and key.endswith('_' + suffix)}


def collect(raw, out):
    data = load(raw)
    data['machine'] = machine()
    data['versions'] = from_environment('VERSION')
    data['skipped'] = from_environment('SKIPPED')
    data['flush_delay'] = os.environ.get('BENCH_FLUSH_DELAY', '')
    data['settings'] = SETTINGS
    data['date'] = os.environ.get('BENCH_DATE', '')
    data['command'] = os.environ.get('BENCH_COMMAND', 'tools/bench')
    with open(out, 'w', encoding='utf-8') as file:
        json.dump(data, file, indent=1)
        file.write('\n')


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


# --------------------------------------------------------------- the figures

class Results:
    def __init__(self, data):
        self.data = data
        self.delay = data.get('flush_delay')
        self.systems = {system['id']: system for system in data['systems']}
        self.rows = {(row['system'], row['clients'], row['names'], row['work_us']): row['rounds']
                     for row in data['rows']}

    def loads(self):
        """(clients, names), without the one that has work in it."""
        return list(dict.fromkeys((row['clients'], row['names'])
                                  for row in self.data['rows'] if row['work_us'] == 0))

    def rounds(self, system, clients, names, work_us=0):
        return self.rows.get((system, clients, names, work_us), [])

    def error(self, system, clients, names):
        return next((r['error'] for r in self.rounds(system, clients, names) if 'error' in r), None)

    def values(self, key, *row):
        return [r[key] for r in self.rounds(*row) if r.get(key) is not None and 'error' not in r]

    def median(self, key, *row):
        values = self.values(key, *row)
        # A fairness that is null stands for a client that never had a turn.
        if not values or (key == 'fairness' and 2 * len(values) <= len(self.rounds(*row))):
            return None
        return statistics.median(values)

    def ratio(self, key, one, other):
        pairs = [(a.get(key), b.get(key)) for a, b in zip(self.rounds(*one), self.rounds(*other))
                 if 'error' not in a and 'error' not in b]
        ratios = [a / b for a, b in pairs if a is not None and b]
        return statistics.median(ratios) if ratios else None

    def most_clients(self):
        return max((clients for clients, _ in self.loads()), default=1)


def duration(us):
    if us is None:
        return '-'
    if us < 999.5:
        return f'{us:.0f} µs'
    if us < 999500:
        ms = us / 1000
        return f'{ms:.2f} ms' if ms < 9.995 else f'{ms:.1f} ms' if ms < 99.95 else f'{ms:.0f} ms'
    return f'{us / 1e6:.2f} s'


def number(value, digits=0):
    return '-' if value is None else f'{value:,.{digits}f}'


def fairness_text(value, rows):
    if value is not None:
        return f'{value:.2f}'
    return 'a client had none' if rows else '-'


HEAD = ['system', 'keeps', 'cycles/s', '(least - most)', 'acquire p50', 'p99', 'p999',
        'hand-over p50', 'p99', 'p999', 'fairness', 'CPU/cycle', 'CPU']


def load_rows(results, clients, names):
    rows = []
    for system in results.data['systems']:
        row = (system['id'], clients, names)
        error = results.error(*row)
        cycles = results.values('cycles_per_second', *row)
        if not cycles:
            rows.append([system['name'], system['keeps'], 'failed: ' + (error or 'not measured')])
            continue
        percent = results.median('server_percent', *row)
        rows.append([
            system['name'], system['keeps'],
            number(statistics.median(cycles)), f'{number(min(cycles))} - {number(max(cycles))}',
            *[duration(results.median(f'acquire_{p}_us', *row)) for p in ('p50', 'p99', 'p999')],
            *[duration(results.median(f'hand_over_{p}_us', *row)) for p in ('p50', 'p99', 'p999')],
            fairness_text(results.median('fairness', *row), cycles),
            duration(results.median('server_us_per_cycle', *row)),
            '-' if percent is None else f'{percent:.0f} %',
        ])
    return rows


OWN_HEAD = ['system', 'keeps', 'own time p50', 'p99', 'p999', 'with 100 µs of work: p50', 'p99', 'p999']
OWN_TITLE = "1 client: the caller's own time in acquire and release"


def own_rows(results):
    rows = []
    for system in results.data['systems']:
        cells = [duration(results.median(f'own_{p}_us', system['id'], 1, 'distinct', work_us))
                 for work_us in (0, 100) for p in ('p50', 'p99', 'p999')]
        rows.append([system['name'], system['keeps'], *cells])
    return rows


def load_title(clients, names):
    if clients == 1:
        return '1 client'
    return f'{clients} clients, ' + ('one hot name' if names == 'hot' else 'each a name of its own')


# --------------------------------------------------------------- the targets

class Target:
    def __init__(self, what, bound, limit, measure):
        self.what, self.bound, self.limit, self.measure = what, bound, limit, measure


AT_MOST, AT_LEAST = 'at most', 'at least'


def compare(key, system, other, clients=1, names='distinct', work_us=0):
    return lambda r: r.ratio(key, (system, clients, names, work_us), (other, clients, names, work_us))


def throughput(*args, **more):
    return compare('cycles_per_second', *args, **more)


def floor_target(what, limit, system, floor, clients, names):
    words = f'{what}, {names}, {clients} clients (cycles/s)'
    return Target(words, AT_LEAST, limit, throughput(system, floor, clients=clients, names=names))


def slow_disk_targets(delay):
    """Where a flush takes longer, a turn with one write has to win."""
    limits = {'1ms': 1.4, '5ms': 1.5}
    return [floor_target('lease against raw bell', limits.get(delay, 1), 'rowlock-lease', 'raw-bell', 8, 'hot')]


def floor_targets():
    """Each kind of lock against the same statements with nothing around them."""
    many = (8, 32, 128)
    return [
        *[floor_target('lease against raw bell', 0.95, 'rowlock-lease', 'raw-bell', n, 'hot') for n in (8, 128)],
        *[floor_target('pessimistic against raw FOR UPDATE', 0.85, 'rowlock-unfenced', 'raw-row', n, 'hot')
          for n in (8, 128)],
        *[floor_target('lease against raw compare-and-swap', 0.85, 'rowlock-lease', 'raw-swap', n, 'distinct')
          for n in many],
        *[floor_target('pessimistic against raw FOR UPDATE', 0.85, 'rowlock-unfenced', 'raw-row', n, 'distinct')
          for n in many],
        *[floor_target('pessimistic, fencing, against a lease', 0.8, 'rowlock-fenced', 'rowlock-lease', 8, names)
          for names in ('hot', 'distinct')],
    ]


def family_targets():
    """Shared leases, slots and sets against a lease of the same run, and slots against other semaphores."""
    def own(what, limit, system):
        return Target(f'{what}, 1 client (own time of a cycle, p50)', AT_MOST, limit,
                      compare('own_p50_us', system, 'rowlock-lease'))

    def hot(what, limit, system, other, names='hot'):
        return Target(f'{what}, 128 clients (cycles/s)', AT_LEAST, limit,
                      lambda r: r.ratio('cycles_per_second', (system, 128, 'hot', 0), (other, 128, names, 0)))

    slots = ('rowlock-slots', 128, 'hot')
    return [
        own('shared lease over a lease', 1.3, 'rowlock-shared'),
        hot('readers of one name against leases of distinct names', 0.7, 'rowlock-shared', 'rowlock-lease', 'distinct'),
        own('one of 4 slots over a lease', 1.2, 'rowlock-slots'),
        hot('4 slots of a hot name against a hot lease', 1.5, 'rowlock-slots', 'rowlock-lease'),
        Target('4 slots: fairness, hot, 128 clients', AT_MOST, 1.5, lambda r: r.median('fairness', *slots)),
        Target('4 slots: the longest that one was free, hot, 128 clients (ms, of all rounds)', AT_MOST, 100,
               lambda r: max((us / 1000 for us in r.values('longest_free_us', *slots)), default=None)),
        hot("4 slots against Redis's semaphore, AOF `always`, hot", 1, 'rowlock-slots', 'redis-semaphore-always'),
        hot("4 slots against ZooKeeper's semaphore, hot", 1, 'rowlock-slots', 'zookeeper-semaphore'),
        own('set of 8 leases over a lease', 2.5, 'rowlock-set'),
    ]


def rival_targets():
    """Against other lock servers, and against itself with more clients."""
    def own(*args, **more):
        return compare('own_p50_us', *args, **more)

    def crowd(system):
        return lambda r: r.ratio('cycles_per_second', (system, 128, 'hot', 0), (system, 8, 'hot', 0))

    def fairness(system):
        return lambda r: r.median('fairness', system, 128, 'hot')

    hot = {'clients': 128, 'names': 'hot'}
    ours = {'pessimistic': 'rowlock-unfenced', 'pessimistic, fencing': 'rowlock-fenced', 'lease': 'rowlock-lease'}
    return [
        Target('pessimistic over raw FOR UPDATE, 1 client (own time of a cycle, p50)', AT_MOST, 1.10,
               own('rowlock-unfenced', 'raw-row')),
        Target('lease over raw compare-and-swap, 1 client (own time of a cycle, p50)', AT_MOST, 1.10,
               own('rowlock-lease', 'raw-swap')),
        Target('pessimistic against Redis in memory, 1 client (cycles/s)', AT_LEAST, 0.75,
               throughput('rowlock-unfenced', 'redis-memory')),
        Target("own time with 100 µs of work, release not waited for, against Redis's (p50)", AT_MOST, 1.0,
               own('rowlock-unfenced-async', 'redis-memory', work_us=100)),
        Target('pessimistic against Redis in memory, hot, 128 clients (cycles/s)', AT_LEAST, 20,
               throughput('rowlock-unfenced', 'redis-memory', **hot)),
        Target('lease against ZooKeeper, 1 client (cycles/s)', AT_LEAST, 2.5,
               throughput('rowlock-lease', 'zookeeper')),
        Target('lease against etcd, 1 client (cycles/s)', AT_LEAST, 2.5,
               throughput('rowlock-lease', 'etcd')),
        Target('lease against Redis `always`, 1 client (cycles/s)', AT_LEAST, 0.75,
               throughput('rowlock-lease', 'redis-always')),
        Target('lease against ZooKeeper, hot, 128 clients (cycles/s)', AT_LEAST, 2,
               throughput('rowlock-lease', 'zookeeper', **hot)),
        Target('lease against etcd, hot, 128 clients (cycles/s)', AT_LEAST, 3,
               throughput('rowlock-lease', 'etcd', **hot)),
        Target('lease against Redis `always`, hot, 128 clients (cycles/s)', AT_LEAST, 3,
               throughput('rowlock-lease', 'redis-always', **hot)),
        *[Target(f'{word}: hot cycles/s at 128 clients against 8', AT_LEAST, 0.7, crowd(system))
          for word, system in ours.items()],
        *[Target(f'{word}: fairness, hot, 128 clients', AT_MOST, 1.2, fairness(system))
          for word, system in ours.items()],
        Target('hand-over p50, hot, 8 clients, pessimistic against raw FOR UPDATE', AT_MOST, 1.15,
               compare('hand_over_p50_us', 'rowlock-unfenced', 'raw-row', clients=8, names='hot')),
    ]


def quorum_targets():
    """A quorum of five against Redlock over five, and against itself with two that are dead."""
    def against(what, other, clients):
        return Target(f'quorum of 5 against Redlock, {what}, {clients} client{"s" * (clients > 1)} (cycles/s)', AT_LEAST, 1,
                      throughput('rowlock-quorum', other, clients=clients))

    def dead(clients):
        return Target(f'quorum of 5 with 2 dead over all well, {clients} client{"s" * (clients > 1)} (own time of a cycle, p50)',
                      AT_MOST, 2, compare('own_p50_us', 'rowlock-quorum-dead', 'rowlock-quorum', clients=clients))

    return [against(what, other, clients) for clients in (1, 8)
            for what, other in (('AOF `always`', 'redlock-always'), ('no AOF', 'redlock-memory'))] + [dead(1), dead(8)]


def all_targets(results):
    if 'rowlock-quorum' in results.systems:
        return quorum_targets()
    return [*floor_targets(), *rival_targets(), *family_targets()]


def target_rows(results):
    rows = []
    for target in slow_disk_targets(results.delay) if results.delay else all_targets(results):
        value = target.measure(results)
        if value is None:
            rows.append([target.what, f'{target.bound} {target.limit:g}', '-', 'not measured'])
            continue
        met = value <= target.limit if target.bound == 'at most' else value >= target.limit
        rows.append([target.what, f'{target.bound} {target.limit:g}', f'{value:.2f}', 'met' if met else 'MISSED'])
    return rows


TARGET_HEAD = ['target', 'wanted', 'measured', '']


# ------------------------------------------------------------------- the text

def where(data):
    of = data.get('machine', {})
    versions = data.get('versions', {})
    named = {}
    for server, version in versions.items():
        named[SERVER_OF.get(server, 'MariaDB')] = version
    lines = [
        f"{of.get('cores')} cores of {of.get('cpu')}, {of.get('memory_gib')} GiB, {of.get('system')}, "
        f"Linux {of.get('kernel')}; all servers and clients on this one machine.",
        'Servers: ' + ', '.join(f'{name} {version}' for name, version in sorted(named.items())) + '.',
        f"{data['rounds']} round{'' if data['rounds'] == 1 else 's'}, the systems in turns; each window {data['seconds']:g} s "
        '(5 times that for one hot name and more than 32 clients).',
        data.get('settings', SETTINGS),
        f"What measuring costs: {number(data['measuring_us'], 2)} µs a cycle, the same for every system.",
    ]
    if data.get('flush_delay'):
        lines.append(f"Each flush of MariaDB's took {data['flush_delay']} longer than this disk takes.")
    for server, why in data.get('skipped', {}).items():
        lines.append(f'Not measured: {server}: {why}')
    return lines


def pad(rows):
    columns = max(len(row) for row in rows)
    widths = [max([len(row[i]) for row in rows if i < len(row) and len(row) == columns] or [0])
              for i in range(columns)]
    for row in rows:
        cells = [cell.ljust(widths[i]) if i < 2 else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        yield '  '.join(cells).rstrip()


def print_text(results):
    print('\n'.join(where(results.data)))
    for clients, names in results.loads():
        print('\n' + load_title(clients, names))
        for line in pad([HEAD, *load_rows(results, clients, names)]):
            print('  ' + line)
    print('\n' + OWN_TITLE)
    for line in pad([OWN_HEAD, *own_rows(results)]):
        print('  ' + line)
    print('\nTargets')
    for line in pad([TARGET_HEAD, *target_rows(results)]):
        print('  ' + line)


def markdown_table(head, rows, left):
    yield '| ' + ' | '.join(head) + ' |'
    yield '|' + '|'.join('---' if i < left else '--:' for i in range(len(head))) + '|'
    for row in rows:
        cells = [cell.replace('|', '\\|') for cell in row]
        yield '| ' + ' | '.join(cells + [''] * (len(head) - len(cells))) + ' |'


def markdown(results):
    data = results.data
    yield from ['', *where(data), '']
    yield f"Measured {data.get('date', '')}; again with `{data.get('command', '')}`. The medians:"
    yield '[performance.json](performance.json).'
    yield ''
    if not results.delay:
        yield '![Cycles per second of each system, with 1 client and with many](performance.svg)'
        yield ''
    yield from markdown_table(TARGET_HEAD, target_rows(results), 1)
    for clients, names in results.loads():
        if results.delay and names != 'hot':
            continue
        title = load_title(clients, names) + (f', {results.delay} more a flush' if results.delay else '')
        yield from ['', f'### {title}', '']
        yield from markdown_table(HEAD, load_rows(results, clients, names), 2)
    if results.delay:
        yield ''
        return
    yield from ['', f'### {OWN_TITLE}', '']
    yield from markdown_table(OWN_HEAD, own_rows(results), 2)
    yield ''


# ---------------------------------------------------------------- the picture

STYLE = '''
  .paper { fill: #ffffff; stroke: #d0d7de; }
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; font-size: 14px; }
  .faint { fill: #656d76; font-size: 11px; }
  .grid { stroke: #d8dee4; }
  .spread { stroke: #1f2328; }
  .rowlock { fill: #2f6fde; } .raw { fill: #9aa4b2; } .other { fill: #d9822b; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; stroke: #30363d; }
    text { fill: #e6edf3; } .faint { fill: #8d96a0; }
    .grid { stroke: #262c36; } .spread { stroke: #e6edf3; }
    .rowlock { fill: #4d8df6; } .raw { fill: #6e7681; } .other { fill: #e3963e; }
  }
'''
WIDTH, LEFT, RIGHT, BAR, GAP = 980, 410, 90, 14, 5


def family(system):
    return next((word for word in ('rowlock', 'raw') if system.startswith(word + '-')), 'other')


def panels(results):
    most = results.most_clients()
    wanted = [(1, 'distinct'), (most, 'distinct'), (most, 'hot')]
    return [load for load in dict.fromkeys(wanted) if load in results.loads()]


def ordered(results):
    """Memory first, then what is on disk; in each the order of the file."""
    return sorted(results.data['systems'], key=lambda system: system['keeps'] != 'memory')


class Picture:
    def __init__(self, results):
        self.results = results
        values = [value for load in panels(results) for system in results.systems
                  for value in results.values('cycles_per_second', system, *load) if value > 0]
        self.low = math.floor(math.log10(min(values, default=1)))
        self.high = math.log10(max(values, default=10)) + 0.02
        self.y = 0
        self.out = []

    def x(self, value):
        part = (math.log10(value) - self.low) / max(self.high - self.low, 0.1)
        return LEFT + max(part, 0) * (WIDTH - LEFT - RIGHT)

    def text(self, x, y, words, kind='', anchor='start'):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def grid(self, top, bottom):
        for power in range(self.low, math.floor(self.high) + 1):
            x = self.x(10 ** power)
            self.out.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>')
            self.text(x, bottom + 13, f'{10 ** power:,}', 'faint', 'middle')

    def bar(self, system, load):
        values = self.results.values('cycles_per_second', system['id'], *load)
        middle = self.y + BAR - 3
        self.text(LEFT - 8, middle, system['name'], '', 'end')
        if not values or max(values) <= 0:
            self.text(LEFT + 6, middle, 'not measured', 'faint')
        else:
            median = statistics.median(values)
            end = self.x(median)
            self.out.append(f'<rect class="{family(system["id"])}" x="{LEFT}" y="{self.y}" '
                            f'width="{max(end - LEFT, 1):.1f}" height="{BAR}" rx="2"/>')
            least, most = self.x(max(min(values), 0.1)), self.x(max(values))
            self.out.append(f'<line class="spread" x1="{least:.1f}" y1="{self.y + BAR / 2}" '
                            f'x2="{most:.1f}" y2="{self.y + BAR / 2}"/>')
            self.text(max(end, most) + 6, middle, f'{median:,.0f}')
        self.y += BAR + GAP

    def panel(self, load):
        self.y += 30
        self.text(20, self.y, load_title(*load), 'title')
        self.y += 10
        top = self.y
        at = len(self.out)
        keeps = None
        for system in ordered(self.results):
            if system['keeps'] != keeps:
                keeps = system['keeps']
                self.y += 4
                self.text(20, self.y + BAR - 3, keeps, 'faint')
            self.bar(system, load)
        drawn, self.out = self.out[at:], self.out[:at]
        self.grid(top, self.y)
        self.out += drawn  # the bars over the grid
        self.y += 16

    def draw(self):
        self.y = 28
        self.text(20, self.y, 'Cycles (acquire and release) in a second, all clients together', 'title')
        self.text(20, self.y + 17, 'Logarithmic. Bar: median of the rounds; line: least and most. memory: lost with '
                  'the server; durable: on disk before the call returns.', 'faint')
        self.y += 12
        for load in panels(self.results):
            self.panel(load)
        height = self.y + 12
        yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
               f'viewBox="0 0 {WIDTH} {height}" role="img">')
        yield f'<title>Cycles per second of each lock system</title><style>{STYLE}</style>'
        yield f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>'
        yield from self.out
        yield '</svg>'


# ----------------------------------------------------------------------- main

def write(path, lines):
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')


def medians(results):
    """What performance.json keeps: how it was measured, and a line for each row."""
    told = {key: results.data[key] for key in
            ('date', 'command', 'settings', 'machine', 'versions', 'rounds', 'seconds', 'measuring_us')}
    rows = []
    for (system, clients, names, work_us), rounds in results.rows.items():
        row = (system, clients, names, work_us)
        keys = [key for key in rounds[0] if key != 'error'] if rounds else []
        figures = {key: results.median(key, *row) for key in keys}
        rows.append({'system': system, 'clients': clients, 'names': names, 'work_us': work_us, **figures})
    targets = [dict(zip(('target', 'wanted', 'measured', 'verdict'), row)) for row in target_rows(results)]
    return {**told, 'targets': targets, 'rows': rows}


def keep_medians(path, disk, results):
    """One member of the file for each disk; a line for each row, so that a difference can be read."""
    kept = load(path) if os.path.exists(path) else {}
    text = json.dumps({**kept, disk: medians(results)}, indent=1, ensure_ascii=False)
    write(path, [re.sub(r'[\[{][^][{}]*[]}]', lambda flat: re.sub(r'\s*\n\s*', ' ', flat[0]), text)])


def write_docs(data, folder):
    results = Results(data)
    disk = f'{results.delay} more a flush' if results.delay else 'as the disk is'
    mark = f'<!-- measured, {disk}: ' if results.delay else '<!-- measured: '
    begin, end = mark + 'begin (tools/bench --write-docs) -->', mark + 'end -->'
    paper = os.path.join(folder, 'performance.md')
    with open(paper, encoding='utf-8') as file:
        before, rest = file.read().split(begin)
    after = rest.split(end)[1]
    keep_medians(os.path.join(folder, 'performance.json'), disk, results)
    if not results.delay:
        write(os.path.join(folder, 'performance.svg'), Picture(results).draw())
    with open(paper, 'w', encoding='utf-8') as file:
        file.write(before + begin + '\n' + '\n'.join(markdown(results)) + '\n' + end + after)


def main(arguments):
    match arguments:
        case ['collect', raw, out]:
            collect(raw, out)
        case ['text', path]:
            print_text(Results(load(path)))
        case ['markdown', path]:
            print('\n'.join(markdown(Results(load(path)))))
        case ['svg', path]:
            print('\n'.join(Picture(Results(load(path))).draw()))
        case ['docs', path, folder]:
            write_docs(load(path), folder)
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
