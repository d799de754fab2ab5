#!/usr/bin/env python3
"""Checks the privileges of each thread of a forwarder that has opened its ends: threads.py PID UID KEPT.

Two threads, wharf-reopen, have the capabilities KEPT (16 hexadecimal digits), the others none. All have the user UID, no new privileges and
a seccomp filter."""
import glob, sys

pid, uid, kept = sys.argv[1:]
threads = [dict(line.rstrip("\n").split(":", 1) for line in open(path)) for path in glob.glob(f"/proc/{pid}/task/*/status")]


def is_reopener(thread):
    return thread["Name"].strip() == "wharf-reopen"


def want(thread):
    return {"Uid": [uid] * 4, "NoNewPrivs": ["1"], "Seccomp": ["2"], "CapInh": ["0" * 16], "CapAmb": ["0" * 16],
            "CapPrm": [kept if is_reopener(thread) else "0" * 16], "CapEff": [kept if is_reopener(thread) else "0" * 16]}


wrong = [(thread["Name"].strip(), key, thread[key].split()) for thread in threads for key, value in want(thread).items() if thread[key].split() != value]
reopeners = sum(map(is_reopener, threads))
sys.exit(f"{wrong}, {reopeners} reopeners" if wrong or reopeners != 2 else 0)
