#!/usr/bin/env python3
"""runner.py SQL_LIBRARY SCRIPT - runs the script on a new schema with rowlock's procedures, and prints where the results
differ. It needs ROWLOCK, ROWLOCK_TOOLS and ROWLOCK_TEST_SOCKET (tests/CMakeLists.txt), and libmariadb.

A script has the lines of several sessions, and below each line the expected result (none for a statement without rows
and without an error):

    # a comment
    # own server --option            for scripts that change a global variable, or need an option; exactly these words
    user app                         a login of its own, without rights: {app} in statements
    login b as app charset=latin1    session b is app's (without a login: root's, utf8mb4)
    mask /[0-9]+ rows/N rows/        for text that differs from run to run (a regular expression)
    a> SELECT 1, 'x'                 session a runs it
       FROM DUAL;                    a line that begins with a space goes on with the one above
    = 1 | x                          the expected result: a row
    b& CALL rowlock_acquire(...);    begun, not waited for
    until b waits                    for a row, a named lock, a table, or in SLEEP()
    until 2 wait                     two connections of this schema
    until a> SELECT ...;             its first column is true
    stop b                           KILL QUERY of b's statement, until it has ended
    b<                               waits for its end, and takes its result
    $ rowlock run x -- true          a shell; `rowlock` is the built command, on this schema
    s$& rowlock run x -- true        one in the background; s< waits for it
    c! acquire x lease wait=0        the library, commands of races/session.c (also c!& ...)
    s$& contend x shared "DO 1"      the library in a loop, see library.c
    close b                          ends the session's connection

In statements and commands {schema} is the schema, {b.id} the number of b's connection, {xFF} a byte. One `;` at the end
is taken away.
"""
import collections
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = 90  # seconds, for what never comes
PHASE = 300  # ... and for a phase of many calls
ENDED = (1053, 1927, 2006, 2013, 2055, 4031)
SIGNALLED, NO_SUCH_SCHEMA_FOR_YOU = 1644, 1044

client = ctypes.CDLL("libmariadb.so.3")
for function, kind in {
        "mysql_init": ctypes.c_void_p, "mysql_real_connect": ctypes.c_void_p, "mysql_store_result": ctypes.c_void_p,
        "mysql_fetch_row": ctypes.POINTER(ctypes.c_void_p), "mysql_fetch_lengths": ctypes.POINTER(ctypes.c_ulong),
        "mysql_thread_id": ctypes.c_ulong, "mysql_error": ctypes.c_char_p, "mysql_sqlstate": ctypes.c_char_p}.items():
    getattr(client, function).restype = kind


class Failed(Exception):
    """What the script cannot go on after."""


def poll(what, is_so):
    end = time.monotonic() + LIMIT
    while not is_so():
        if time.monotonic() > end:
            raise Failed(what + ": that does not come")
        time.sleep(0.05)


def cell(value):
    """As it is where it is text, each byte as \\xNN where it is not."""
    if value is None:
        return "NULL"
    try:
        return re.sub(r"[\0-\x1f\x7f]", lambda c: "\n= " if c[0] == "\n" else f"\\x{ord(c[0]):02X}", value.decode())
    except UnicodeDecodeError:
        return "".join(chr(b) if 0x20 <= b < 0x7f else f"\\x{b:02X}" for b in value)


class Connection:
    def __init__(self, user="root", charset="utf8mb4", schema=None):
        self.mysql = ctypes.c_void_p(client.mysql_init(None))
        client.mysql_options(self.mysql, 7, charset.encode())  # MYSQL_SET_CHARSET_NAME
        self.good = client.mysql_real_connect(self.mysql, None, user.encode(), None, schema and schema.encode(), 0,
                                              os.environ["ROWLOCK_TEST_SOCKET"].encode(), ctypes.c_ulong(0))
        self.id = client.mysql_thread_id(self.mysql)

    def rows(self):
        """Of the result that is there; None where there is none."""
        result = ctypes.c_void_p(client.mysql_store_result(self.mysql))
        if not result:
            return None
        rows = []
        while row := client.mysql_fetch_row(result):
            lengths = client.mysql_fetch_lengths(result)
            rows.append([ctypes.string_at(row[i], lengths[i]) if row[i] else None
                         for i in range(client.mysql_num_fields(result))])
        client.mysql_free_result(result)
        return rows

    def run(self, text):
        """What comes out of a statement, as it stands in a script."""
        out = []
        query = text.encode("utf-8", "surrogateescape")
        # -1 where it could not be sent; of the next result that would mean that there is none.
        status = 1 if client.mysql_real_query(self.mysql, query, ctypes.c_ulong(len(query))) else 0
        while status == 0:
            rows = self.rows()
            if rows is not None:
                out += ["= " + " | ".join(map(cell, row)) for row in rows] or ["= no rows"]
            elif client.mysql_field_count(self.mysql):
                status = 1
                break
            status = client.mysql_next_result(self.mysql)
        if status > 0:
            out.append("= ERROR " + self.error())
        return out

    def error(self):
        """The servers word their own errors each in its way; what a procedure says is ours."""
        number, state = client.mysql_errno(self.mysql), client.mysql_sqlstate(self.mysql).decode()
        if number in ENDED:
            return "the connection has ended"
        return f"{state}: {cell(client.mysql_error(self.mysql))}" if number == SIGNALLED else f"{state} ({number})"

    def ask(self, text):
        """One result, which there must be."""
        query = text.encode()
        if client.mysql_real_query(self.mysql, query, ctypes.c_ulong(len(query))):
            raise Failed(f"{text}: {client.mysql_error(self.mysql).decode()}")
        return self.rows()

    def close(self):
        client.mysql_close(self.mysql)


class Party:
    """Who a line begins with: it has a connection, or the session of the library, or shells."""

    def __init__(self):
        self.user, self.charset = "root", "utf8mb4"
        self.connection = self.thread = self.out = None


class Place:
    def __init__(self, library):
        self.library = subprocess.Popen([library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.schema = self.library.stdout.readline().strip()
        self.admin = Connection(schema=self.schema)
        self.is_mysql = b"MariaDB" not in self.admin.ask("SELECT VERSION()")[0][0]
        self.processlist = ("performance_schema" if self.is_mysql else "information_schema") + ".processlist"
        self.parties, self.users = {}, []
        # Owners, points in time, spans of it, connections.
        self.masks = [(r"[0-9a-f]{26}-[0-9a-f]{32}", "OWNER"),
                      (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?", "TIME"),
                      (r"[0-9]+[.][0-9]+ s", "N s"), (r"connection [0-9]+", "connection N"),
                      (r"@localhost [0-9]+", "@localhost N"), (self.schema, "{schema}")]
        self.folder = tempfile.mkdtemp(prefix="sql.")
        self.add_command("rowlock", f"'{os.environ['ROWLOCK']}' --no-defaults -S '{os.environ['ROWLOCK_TEST_SOCKET']}'"
                         f" -u root -D '{self.schema}'")
        self.add_command("contend", f"'{library}' '{self.schema}'")
        os.environ.update(PATH=self.folder + ":" + os.environ["PATH"], LC_ALL="C.UTF-8", NO_COLOR="1")
        for variable in ("ROWLOCK_URL", "MYSQL_PWD"):
            os.environ.pop(variable, None)
        subprocess.run(["rowlock", "init", "--procedures", "-q"], check=True)

    def add_command(self, name, begins):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8") as command:
            command.write(f'#!/bin/sh\nexec {begins} "$@"\n')
        os.chmod(path, 0o700)

    def end(self):
        for name in self.parties:
            self.close(name)
        for user in self.users:
            self.admin.run(f"DROP USER {self.account(user)}")
        self.admin.close()
        self.library.communicate()
        shutil.rmtree(self.folder)

    def party(self, name):
        return self.parties.setdefault(name, Party())

    def account(self, user):
        return f"'{user}_{os.getpid()}'@'localhost'"

    def add_user(self, name):
        self.users.append(name)
        self.masks.append((f"{name}_{os.getpid()}", name))
        self.admin.ask(f"CREATE USER {self.account(name)} IDENTIFIED BY ''")

    def login(self, name, words):
        self.close(name)
        party = self.party(name)
        user = re.search(r" as (\w+)", words)
        charset = re.search(r" charset=(\w+)", words)
        party.user = f"{user[1]}_{os.getpid()}" if user and user[1] != "root" else "root"
        party.charset = charset[1] if charset else "utf8mb4"

    def connection(self, name):
        """Who has no right in the schema may not connect to it, and can only name it."""
        party = self.party(name)
        for schema in () if party.connection else (self.schema, None):
            party.connection = Connection(party.user, party.charset, schema)
            if party.connection.good:
                break
            if client.mysql_errno(party.connection.mysql) != NO_SUCH_SCHEMA_FOR_YOU:
                raise Failed(f"{name} cannot connect: {party.connection.error()}")
        return party.connection

    def close(self, name):
        """What it had on the server (named locks, rows) is free when this returns."""
        party = self.party(name)
        if party.connection:
            gone = f"SELECT 1 FROM {self.processlist} WHERE id = {party.connection.id}"
            party.connection.close()
            party.connection = None
            poll("the end of " + name, lambda: not self.admin.ask(gone))

    def value(self, match):
        """Of what stands between braces; as it is where that is nothing that is known."""
        word = match[1]
        if word == "schema":
            return self.schema
        if word in self.users:
            return self.account(word)
        if word.endswith(".id"):
            return str(self.connection(word[:-3]).id)
        return chr(0xDC00 + int(word[1:], 16)) if re.fullmatch("x[89A-F][0-9A-F]", word) else match[0]

    def fill_in(self, text):
        return re.sub(r"\{(\w+([.]id)?)\}", self.value, text)

    def masked(self, lines):
        text = "\n".join(lines)
        for expression, becomes in self.masks:
            text = re.sub(expression, lambda match, becomes=becomes: becomes, text)
        return [text] if text else []

    def begin(self, name, kind, text):
        """What comes out of it is in `out` when the thread has ended."""
        party = self.party(name)
        if party.thread:
            raise Failed(name + " still runs what it began before")
        text = self.fill_in(text)
        run = {"$": self.run_shell, "!": self.run_library}.get(kind) or self.connection(name).run
        party.out = None
        party.thread = threading.Thread(target=lambda: setattr(party, "out", run(text)), daemon=True)
        party.thread.start()

    def finish(self, name):
        party = self.party(name)
        if not party.thread:
            raise Failed(name + " runs nothing")
        party.thread.join(PHASE)
        if party.out is None:
            raise Failed(name + " does not end")
        party.thread = None
        return self.masked(party.out)

    def stop(self, name):
        """MySQL (9.7) loses a KILL QUERY that comes between two statements of a procedure: three of 950 were."""
        def has_ended():
            self.admin.run(f"KILL QUERY {self.connection(name).id}")
            time.sleep(0.2)
            return self.party(name).out is not None
        poll("the end of " + name, has_ended)

    def run_shell(self, text):
        # One pipe for both, so that their order is kept.
        done = subprocess.run(["sh", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        status = [f"= exit status {done.returncode}"] if done.returncode else []
        return ["= " + cell(line) for line in done.stdout.splitlines()] + status

    def run_library(self, text):
        self.library.stdin.write(text + "\n")
        self.library.stdin.flush()
        return ["= " + self.library.stdout.readline().strip()]

    def row_waits(self):
        """information_schema.innodb_trx is a cache, which is not renewed while anybody reads it more often than every
        0.1 s. MySQL's status of InnoDB leaves out who has locked nothing for a change yet."""
        if self.is_mysql:
            return self.admin.ask("SELECT CONCAT_WS(',', 0, GROUP_CONCAT(t.processlist_id)) FROM"
                                  " performance_schema.data_locks l JOIN performance_schema.threads t USING (thread_id)"
                                  " WHERE l.lock_status = 'WAITING'")[0][0].decode()
        status = self.admin.ask("SHOW ENGINE INNODB STATUS")[0][2].decode("utf-8", "replace")
        return ",".join(["0"] + re.findall(r"\nLOCK WAIT .*?thread id (\d+)", status, re.S))

    def waiting(self, of_whom):
        return int(self.admin.ask(
            f"SELECT COUNT(*) FROM {self.processlist} WHERE (state IN ('User lock', 'User sleep')"
            f" OR state LIKE 'Waiting for %lock' OR id IN ({self.row_waits()})) AND {of_whom}")[0][0])

    def await_waits(self, what, of_whom, count, has_ended=lambda: False):
        """Five of eight looks must agree: on its way to where it is to wait it may wait for a moment elsewhere, and one
        that polls works between its pauses. If it has ended meanwhile, what comes out of it says whether it has waited."""
        looks = collections.deque(maxlen=8)

        def enough():
            looks.append(self.waiting(of_whom) == count)
            return sum(looks) >= 5 or has_ended()

        poll(what, enough)

    def until(self, what):
        if match := re.fullmatch(r"(\d+) wait", what):
            self.await_waits(what, f"db = '{self.schema}'", int(match[1]))
        elif match := re.fullmatch(r"(\w+) waits", what):
            party = self.party(match[1])
            self.await_waits(what, f"id = {self.connection(match[1]).id}", 1, lambda: party.out is not None)
        else:
            statement = self.fill_in(what.split(">", 1)[1])
            poll(what, lambda: self.admin.ask(statement)[0][0] not in (None, b"", b"0"))

    def step(self, line):
        """What comes out of it."""
        word, _, rest = line.partition(" ")
        directives = {"until": self.until, "stop": self.stop, "user": self.add_user, "close": self.close,
                      "mask": lambda text: self.masks.append(tuple(text.split("/")[1:3])),
                      "login": lambda text: self.login(*re.match(r"(\w+)(.*)", text).groups())}
        if word in directives:
            directives[word](rest)
            return []
        name, kind, background, text = re.fullmatch(r"(\w*)([>&<$!])(&?) ?(.*)", line, re.S).groups()
        if kind == "<":
            return self.finish(name)
        self.begin(name or "shell", kind, text)
        return [] if background or kind == "&" else self.finish(name or "shell")


def steps_of(path):
    """Each with all its lines; what is to come out is left away."""
    steps = []
    with open(path, encoding="utf-8") as script:
        for line in script.read().splitlines():
            if line.startswith(" "):
                steps[-1] += "\n" + line
            elif not line.startswith("="):
                steps.append(line)
    return steps


def run(place, steps, out):
    for step in steps:
        out.append(step)
        if step and not step.startswith("#"):
            out += place.step(step if "$" in step.split(" ")[0] else step.removesuffix(";"))
    for name, party in place.parties.items():
        if party.thread:
            raise Failed(f"what {name} began is never waited for")


def main():
    library, path = sys.argv[1:]
    steps, out, failed = steps_of(path), [], False
    server = None
    own = next((step.split()[3:] for step in steps if step.startswith("# own server")), None)
    if own is not None:
        server = tempfile.mkdtemp(prefix="own.")
        start = subprocess.run([os.environ["ROWLOCK_TOOLS"] + "/server", "start", server, "--", *own],
                               stdout=subprocess.PIPE, text=True, check=True)
        os.environ["ROWLOCK_TEST_SOCKET"] = start.stdout.split()[-1]
    try:
        place = Place(library)
        try:
            run(place, steps, out)
        except Failed as why:
            out.append(str(why))
            failed = True
        differs = subprocess.run(["diff", "-u", path, "-"], input="\n".join(out) + "\n", text=True, check=False).returncode
        if not failed:
            place.end()
    finally:
        if server:
            subprocess.run([os.environ["ROWLOCK_TOOLS"] + "/server", "remove", server], check=True)
    os._exit(bool(differs or failed))  # what hangs, hangs; its schema is left to the server's end


main()
