"""Peers of `wharf admin helper`, and BPF objects of another program's, for tests/privileges.sh.

ask SOCKET INTERFACE          a user in the words of the AF_XDP device plug-in for Kubernetes
hostile SOCKET INTERFACE PID  silent users, nonsense and descriptors; then an honest user is served within seconds
greedy SOCKET INTERFACE       a user that asks for hundreds of descriptors, reads none, and stays for half a minute
serve SOCKET INTERFACE MAP    the plug-in: gives the map that is pinned at MAP, and no sockets
pin MAP PROGRAM               makes a map of sockets and a program that reads it, and pins both
run MAP COMMAND...            runs a command with the map that is pinned at MAP as descriptor N, in place of each `fd:N`
"""
import array, ctypes, os, platform, socket, struct, sys, time

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    result = libc.syscall(BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def connect(path):
    user = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # With a time limit it would fail while the backlog is full.
    user.connect(path)
    user.settimeout(5)
    return user


def exchange(user, request):
    """Returns the answer, and the descriptor that came with it."""
    user.send(request)
    answer, ancillary, _, _ = user.recvmsg(64, socket.CMSG_SPACE(4))
    fds = [array.array("i", data)[0] for level, kind, data in ancillary if kind == socket.SCM_RIGHTS]
    return answer, fds[0] if fds else None


def ask(path, interface):
    user = connect(path)
    assert exchange(user, b"/connect, afxdp-e2e-test") == (b"/host_ok", None)
    assert exchange(user, b"/version") == (b"0.1", None)
    assert exchange(user, b"/xsk_map_fd, bad-device") == (b"/fd_nak", None)
    assert exchange(user, b"/config_busy_poll, 20, 64") == (b"/nak", None)
    answer, map_fd = exchange(user, f"/xsk_map_fd, {interface}".encode())
    assert answer == b"/fd_ack" and map_fd is not None, answer
    # BPF_OBJ_GET_INFO_BY_FD: the type of the map.
    info = ctypes.create_string_buffer(64)
    bpf(15, struct.pack("IIQ", map_fd, len(info), ctypes.addressof(info)))
    assert struct.unpack_from("I", info)[0] == 17, "no XSKMAP"
    assert exchange(user, b"/fin") == (b"/fin_ack", None)
    assert user.recv(64) == b"", "the helper goes on after /fin"


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def hostile(path, interface, pid):
    before = descriptors(pid)
    for _ in range(100):
        user = connect(path)
        # Descriptors that nothing asked for are closed, and the answer is that to the words.
        user.sendmsg([b"/version"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
        assert user.recv(64) == b"0.1"
        user.close()
    time.sleep(0.5)
    assert descriptors(pid) <= before + 40, f"{before} descriptors before, {descriptors(pid)} then"
    silent = [connect(path) for _ in range(64)]
    for nonsense in [b"\xff" * 64, b"/" * 4000, b",", b"/xsk_map_fd", b"/xsk_socket,../../etc", b"\0" * 100, b"/connect"]:
        user = connect(path)
        user.send(nonsense)
        user.close()
    began = time.monotonic()
    ask(path, interface)
    took = time.monotonic() - began
    assert took < 4, f"an honest user waited for {took:.2f} s"
    assert silent


def greedy(path, interface):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    connections = []
    for _ in range(40):
        user = connect(path)
        connections.append(user)
        try:
            for request in [b"/connect,greedy"] + [f"/xsk_map_fd,{interface}".encode()] * 60:
                user.send(request, socket.MSG_DONTWAIT)
        except OSError:  # let go, or as many as fit
            pass
        time.sleep(0.02)
    print("asked", file=sys.stderr, flush=True)
    time.sleep(30)


def opened(path):
    name = ctypes.create_string_buffer(path.encode())
    return bpf(7, struct.pack("QII", ctypes.addressof(name), 0, 0))


def serve(path, interface, pinned):
    map_fd = opened(pinned)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("serving", file=sys.stderr, flush=True)
    while True:
        user, _ = listener.accept()
        while request := user.recv(64):
            word, _, of = request.decode().partition(",")
            if word == "/connect":
                user.send(b"/host_ok")
            elif word == "/xsk_map_fd" and of.strip() == interface:
                user.sendmsg([b"/fd_ack"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [map_fd]))])
            elif word == "/fin":
                user.send(b"/fin_ack")
                break
            else:
                user.send(b"/nak")
        user.close()


def pin(map_path, program_path):
    map_fd = bpf(0, struct.pack("IIII", 17, 4, 4, 8))
    instruction = lambda code, registers, offset, immediate: struct.pack("BBhi", code, registers, offset, immediate)
    program = b"".join([
        instruction(0x61, 0x12, 16, 0),  # r2 = context->rx_queue_index
        instruction(0x18, 0x11, 0, map_fd), instruction(0, 0, 0, 0),  # r1 = map
        instruction(0xB7, 0x03, 0, 2),  # r3 = XDP_PASS
        instruction(0x85, 0, 0, 51),  # bpf_redirect_map
        instruction(0x95, 0, 0, 0),
    ])
    code, license = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"GPL")
    load = struct.pack("IIQQIIQII16sII", 6, len(program) // 8, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0,
                       b"foreign", 0, 37)
    program_fd = bpf(5, load)
    for path, fd in [(map_path, map_fd), (program_path, program_fd)]:
        name = ctypes.create_string_buffer(path.encode())
        bpf(6, struct.pack("QII", ctypes.addressof(name), fd, 0))


def run(pinned, *command):
    fd = opened(pinned)
    os.set_inheritable(fd, True)
    os.execvp(command[0], [word.replace("fd:N", f"fd:{fd}") for word in command])


{"ask": ask, "hostile": hostile, "greedy": greedy, "serve": serve, "pin": pin, "run": run}[sys.argv[1]](*sys.argv[2:])
