"""Clients and back ends of examples.sh: plain sockets of the kernel, which checks what arrives.

  ask HOST:PORT FLOWS COUNT       sends numbered datagrams by FLOWS sockets, eight of each at once, and checks the answers:
                                  each socket's are its own, in order, behind one word. Prints the words and the number of
                                  flows that got each.
  serve PORT ADDRESS...           answers at each address: the address, a space, and the datagram. Until it is ended.
  fan FILE PAYLOADS DESTINATION... checks a capture of `retransmit`: headers, all payloads to each destination, and that two and
                                  two destinations, those of one path, get them in the same order.
Each says `ready` once it listens; a wrong byte is an error.
"""
import collections
import os
import select
import socket
import struct
import sys

SO_NO_CHECK = 11
AT_ONCE = 8


def ask(where, flows, count):
    host, port = where.rsplit(":", 1)
    family, host = (socket.AF_INET6 if ":" in host else socket.AF_INET), host.strip("[]")
    words = collections.Counter()
    socks = []
    for flow in range(int(flows)):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        # Every fourth flow goes without a checksum, as IPv4 may.
        if flow % 4 == 3 and family == socket.AF_INET:
            sock.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        sock.connect((host, int(port)))
        sock.settimeout(10)
        socks.append(sock)
    # Lengths from 4 bytes to 1400, odd ones too.
    payload = lambda flow, number: struct.pack("!HH", flow, number) + os.urandom((flow * 97 + number * 31) % 1397)
    word_of = {}
    for first in range(0, int(count), AT_ONCE):
        sent = {}
        for flow, sock in enumerate(socks):
            for number in range(first, min(first + AT_ONCE, int(count))):
                sent[flow, number] = payload(flow, number)
                sock.send(sent[flow, number])
        for (flow, number), wanted in sent.items():
            got = socks[flow].recv(65536)
            assert got.endswith(wanted), f"flow {flow}, number {number}: {got[:40]} for {wanted[:40]}"
            word = got[: len(got) - len(wanted)].decode().strip()
            assert word_of.setdefault(flow, word) == word, f"flow {flow} goes to {word_of[flow]} and to {word}"
    words.update(word_of.values())
    print(*(f"{word or 'itself'}:{flows}" for word, flows in sorted(words.items())))


def serve(port, *addresses):
    socks = []
    for address in addresses:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((address, int(port)))
        socks.append((sock, address.encode() + b" "))
    by_number = {sock.fileno(): (sock, word) for sock, word in socks}
    print("ready", file=sys.stderr, flush=True)
    while True:
        for number in select.select(list(by_number), [], [])[0]:
            sock, word = by_number[number]
            data, client = sock.recvfrom(65536)
            sock.sendto(word + data, client)


def fan(path, payloads, *destinations):
    data, at = open(path, "rb").read(), 24
    of = collections.defaultdict(bytearray)
    while at < len(data):
        frame = data[at + 16 : at + 16 + struct.unpack_from("<I", data, at + 8)[0]]
        at += 16 + len(frame)
        assert len(frame) == 42 + 1232 and sum(struct.unpack("!10H", frame[14:34])) % 0xFFFF == 0, "wrong headers"
        assert frame[30:33] == b"\x0a\x4d\0" and len(set(frame[42:])) == 1, "wrong destination or payload"
        of[frame[33]].append(frame[42])
    orders = [bytes(of[int(destination)]) for destination in destinations]
    assert len(of) == len(orders), f"{len(of)} destinations"
    # Destinations are in pairs of one path. Paths may mix the payloads of several producers in different orders.
    for one, other in zip(orders[::2], orders[1::2]):
        assert one == other, "destinations of one path get payloads in different orders"
    for order in orders:
        assert len(order) == int(payloads) and sorted(order) == sorted(orders[0]), "not every payload to every destination"


{"ask": ask, "serve": serve, "fan": fan}[sys.argv[1]](*sys.argv[2:])
