"""Carries a file over TCP: `receive PORT FILE` takes one, `send HOST PORT FILE` gives one, once a socket listens."""
import socket
import sys
import time

SECONDS = 120


def receive(port, file):
    server = socket.create_server(("", int(port)))
    server.settimeout(SECONDS)
    print("listening", file=sys.stderr, flush=True)
    connection, _ = server.accept()
    connection.settimeout(SECONDS)
    with open(file, "wb") as to:
        while data := connection.recv(1 << 20):
            to.write(data)


def send(host, port, file):
    until = time.monotonic() + SECONDS
    while True:
        try:
            connection = socket.create_connection((host, int(port)), SECONDS)
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    with open(file, "rb") as what:
        connection.sendall(what.read())
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):
        pass


{"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
