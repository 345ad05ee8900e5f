#!/usr/bin/env python3
"""terminal.py STEP... -- COMMAND...: runs the command on a terminal of its own, and plays a user there.

The command leads a new session whose controlling terminal it is. The steps are done in turn:

    type:KEYS     types them (escapes as in Python: \\n, \\x1a)
    wait:REGEX    until it is on the screen, behind what the last wait: found
    until:SHELL   until this command of bash succeeds
    columns:N     makes the terminal so wide
    hangup:       closes the terminal, as a connection that breaks does

Then it waits for the command's end. All that came on the screen goes to stdout. The exit status is the
command's, 128 + N when signal N ended it, and 99 when a step was not done within LIMIT seconds.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = int(os.environ.get("TERMINAL_LIMIT", "90"))


class Terminal:
    def __init__(self, command):
        self.screen = b""
        self.seen = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN,
                           signal.SIGTTOU, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)

    def read(self, seconds):
        """What has come, for so long at most."""
        if self.fd is None or not select.select([self.fd], [], [], seconds)[0]:
            if self.fd is None:
                time.sleep(seconds)
            return
        try:
            some = os.read(self.fd, 65536)
        except OSError:  # nobody has the other side open any more
            some = b""
        self.screen += some
        if not some:
            time.sleep(seconds)

    def until(self, what, is_done):
        end = time.monotonic() + LIMIT
        while not is_done():
            if time.monotonic() > end:
                self.give_up(what)
            self.read(0.03)

    def give_up(self, what):
        sys.stdout.buffer.write(self.screen)
        print(f"\nterminal.py: not within {LIMIT} s: {what}", flush=True)
        subprocess.run(["ps", "-o", "pid,ppid,pgid,tpgid,stat,args", "-s", str(self.pid)], check=False)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit(99)

    def has_shown(self, regex):
        found = re.compile(regex.encode(), re.M).search(self.screen, self.seen)
        if found:
            self.seen = found.end()
        return found is not None

    def do(self, step):
        kind, _, text = step.partition(":")
        if kind == "type":
            os.write(self.fd, text.encode().decode("unicode_escape").encode())
        elif kind == "wait":
            self.until(step, lambda: self.has_shown(text))
        elif kind == "until":
            self.until(step, lambda: subprocess.run(
                ["bash", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False).returncode == 0)
        elif kind == "columns":
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(text), 0, 0))
        elif kind == "hangup":
            os.close(self.fd)
            self.fd = None
        else:
            sys.exit(f"terminal.py: what is '{step}'?")

    def end(self):
        status = []

        def is_over():
            pid, raw = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status.append(os.waitstatus_to_exitcode(raw))
            return pid != 0

        self.until("the command's end", is_over)
        while self.fd is not None and select.select([self.fd], [], [], 0)[0]:
            before = len(self.screen)
            self.read(0)
            if len(self.screen) == before:
                break
        return status[0] if status[0] >= 0 else 128 - status[0]


def main():
    cut = sys.argv.index("--")
    terminal = Terminal(sys.argv[cut + 1:])
    for step in sys.argv[1:cut]:
        terminal.do(step)
    status = terminal.end()
    sys.stdout.buffer.write(terminal.screen)
    sys.stdout.flush()
    sys.exit(status)


main()
