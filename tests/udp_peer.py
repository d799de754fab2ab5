"""The other end of udp.sh: a plain socket, and captures read and written by this code alone.

  frames CAPTURE HOST1:PORT HOST2:PORT COUNT      writes datagrams to both in turn, and other frames
  expect CAPTURE HOST:PORT [one]                  receives what its datagrams carry (those to this address only, with `one`)
  send HOST:PORT COUNT BYTES SEGMENTS             sends numbered datagrams, so many by one call
  check CAPTURE HOST:PORT COUNT BYTES             compares a capture of those, headers and checksums included
  count HOST:PORT SECONDS [MOST]                  receives until nothing has come for so long, or hardly more than MOST; how many
  member GROUP:PORT INTERFACE SECONDS [MOST]      joins a group and counts, as `count` does
  refuses HOST:PORT BYTES                         whether the kernel refuses segments of that length
Each says `ready` once it listens, and ends with a line of what it has seen; wrong bytes are an error.
"""
import ipaddress
import socket
import struct
import sys
import time

SO_RCVBUFFORCE = 33


def address(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def open_socket(text, receives):
    host, port = address(text)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    if receives:
        sock.bind((host, port))
        print("ready", file=sys.stderr, flush=True)
    return sock


def capture(path):
    data = open(path, "rb").read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        length = struct.unpack(order + "I", data[at + 8 : at + 12])[0]
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def datagram(frame):
    """Source, destination and payload of a frame with one whole datagram, else None."""
    at = 12
    while frame[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, at = frame[at : at + 2], at + 2
    if kind == b"\x08\x00":
        ip = frame[at:]
        if ip[9] != 17 or struct.unpack("!H", ip[6:8])[0] & 0x3FFF:
            return None
        ends, head = (ip[12:16], ip[16:20]), (ip[0] & 15) * 4
    elif kind == b"\x86\xdd":
        ip = frame[at:]
        if ip[6] != 17:
            return None
        ends, head = (ip[8:24], ip[24:40]), 40
    else:
        return None
    source, destination, length, _ = struct.unpack("!HHHH", ip[head : head + 8])
    host = lambda packed: str(ipaddress.ip_address(packed))
    return (host(ends[0]), source), (host(ends[1]), destination), ip[head + 8 : head + length], ip, head


def ones(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return total


def numbered(number, length):
    return (struct.pack("!I", number) + bytes((number + at) & 255 for at in range(length)))[:length]


def frames(path, one, two, count):
    def frame(to, payload):
        packed = [ipaddress.ip_address(host).packed for host in ("192.0.2.1", to[0])]
        udp = struct.pack("!HHHH", 7, to[1], 8 + len(payload), 0) + payload
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + b"".join(packed)
        return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\x00" + ip + udp

    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1))
        for number in range(int(count)):
            all_of = [frame(address(two if number % 3 == 2 else one), numbered(number, 300))]
            if number % 10 == 9:
                all_of.append(b"\xff" * 12 + b"\x08\x06" + bytes(46))
            for data in all_of:
                file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def expect(path, at, one=None):
    sock = open_socket(at, True)
    sock.settimeout(20)
    seen = others = 0
    for frame in capture(path):
        found = datagram(frame)
        if found is None:
            others += 1
        elif one is None or found[1] == address(at):
            if sock.recv(1 << 16) != found[2]:
                sys.exit(f"datagram {seen} differs")
            seen += 1
    print(seen, others)


def unread_bytes(port):
    """Bytes in the buffers of this machine's sockets at `port`: proc(5), net/udp."""
    unread = 0
    for path in ("/proc/net/udp", "/proc/net/udp6"):
        rows = [row.split() for row in open(path).readlines()[1:]]
        unread += sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(f":{port:04X}"))
    return unread


def send(at, count, length, segments):
    sock, length, segments = open_socket(at, False), int(length), int(segments)
    sock.connect(address(at))
    for first in range(0, int(count), segments):
        data = b"".join(numbered(number, length) for number in range(first, min(first + segments, int(count))))
        # The receiver may be descheduled just now, and its buffer is small.
        while unread_bytes(address(at)[1]) > 65536:
            time.sleep(0.001)
        sock.sendmsg([data], [(17, 103, struct.pack("H", length))] if segments > 1 else [])


def check(path, at, count, length):
    seen = 0
    for frame in capture(path):
        source, destination, payload, ip, head = datagram(frame)
        wide = len(ip) - head
        pseudo = ip[8:40] if head == 40 else ip[12:20]
        right = [
            destination == address(at) and source[0] == address(at)[0] and payload == numbered(seen, int(length)),
            ones(pseudo + struct.pack("!HH", 17, wide) + ip[head:]) == 0xFFFF,
            head == 40 or ones(ip[:20]) == 0xFFFF and struct.unpack("!H", ip[2:4])[0] == len(ip),
        ]
        if not all(right):
            sys.exit(f"frame {seen}: {right}")
        seen += 1
    if seen != int(count):
        sys.exit(f"{seen} of {count}")


def member(at, interface, seconds, most="inf"):
    host, port = address(at)
    wide, index = ":" in host, socket.if_nametoindex(interface)
    sock = socket.socket(socket.AF_INET6 if wide else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port, 0, index) if wide else (host, port))
    group = ipaddress.ip_address(host).packed
    if wide:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("@I", index))
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + struct.pack("=Ii", 0, index))
    print("ready", file=sys.stderr, flush=True)
    counted(sock, seconds, most)


def count(at, seconds, most="inf"):
    counted(open_socket(at, True), seconds, most)


def counted(sock, seconds, most):
    seen = 0
    sock.settimeout(20)
    try:
        while True:
            sock.recv(1 << 16)
            seen += 1
            # One too many would come at once.
            sock.settimeout(float(seconds) if seen < float(most) else 0.2)
    except socket.timeout:
        print(seen)


def refuses(at, length):
    sock = open_socket(at, False)
    sock.connect(address(at))
    try:
        sock.sendmsg([bytes(3 * int(length))], [(17, 103, struct.pack("H", int(length)))])
    except OSError as error:
        print(error)
        return
    sys.exit("it does not")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
