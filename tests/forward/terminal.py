"""Runs a command with a terminal of 80 columns as its standard error, and judges what was shown there.
usage: terminal.py run COMMAND...: passes on to standard error what the command writes; a SIGINT goes to it
       terminal.py judge FILE TEXT...: exit code 0 if each text is on a line of its own that nothing has overwritten, and no line that
         the terminal shows is longer than it is wide"""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

COLUMNS = 80


def run(*command):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(command, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    signal.signal(signal.SIGINT, lambda *_: process.send_signal(signal.SIGINT))
    try:
        while shown := os.read(ours, 65536):
            os.write(2, shown)
    except OSError:
        # The command has closed its side.
        pass
    return process.wait()


def judge(file, *texts):
    shown = open(file, newline="").read()
    # A line is what stands between two returns, erasures or moves of the cursor; a message ends with a line feed.
    parts = re.split(r"(\r\n|\n|\r|\x1b\[[0-9;?]*[A-Za-z])", shown)
    lines = list(zip(parts[::2], [*parts[1::2], ""]))
    kept = [line for line, end in lines if end.endswith("\n")]
    drawn = [line for line, end in lines if not end.endswith("\n")]
    missing = [text for text in texts if not any(text in line for line in kept)]
    long = [line for line in drawn if len(line) > COLUMNS]
    if missing or long or not any("pps" in line for line in drawn):
        print(f"not shown: {missing}; too long: {long[:2]}")
        return 1
    return 0


sys.exit({"run": run, "judge": judge}[sys.argv[1]](*sys.argv[2:]))
