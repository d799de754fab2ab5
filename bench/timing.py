"""The two captures of timing.sh, and what the far end saw of them, as a Markdown table."""
import collections
import json
import random
import statistics
import struct
import sys

SECONDS, FRAMES, PACED_FRAMES, PACED_GAP_NS = 10, 20_000, 300_000, 10_000


def read(path):
    data = open(path, "rb").read()
    unit_ns = 1000 if data[:4] == b"\xd4\xc3\xb2\xa1" else 1
    at = 24
    while at < len(data):
        seconds, fraction, captured, _ = struct.unpack_from("<IIII", data, at)
        yield seconds * 10**9 + fraction * unit_ns, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def write(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for time_ns, frame in frames:
            head = (1_700_000_000 + time_ns // 10**9, time_ns % 10**9, len(frame), len(frame))
            out.write(struct.pack("<IIII", *head) + frame)


def make(sample, out):
    """The sample's frames at random times of 10 s, of a fixed seed; and short ones, whose times do not matter."""
    generator = random.Random(1)
    frames = [frame for _, frame in read(sample)]
    times = [0] + sorted(generator.randrange(SECONDS * 10**9) for _ in range(FRAMES - 2)) + [SECONDS * 10**9]
    write(f"{out}/original.pcap", ((time_ns, frames[at % len(frames)]) for at, time_ns in enumerate(times)))
    short = bytes.fromhex("020000000002020000000001 88b5") + bytes(50)
    write(f"{out}/paced.pcap", ((at * PACED_GAP_NS, short) for at in range(PACED_FRAMES)))


def judge(out):
    due = {"original": [time for time, _ in read(f"{out}/original.pcap")]}
    due["paced"] = [at * PACED_GAP_NS for at in range(PACED_FRAMES)]
    rows = collections.defaultdict(list)
    for line in open(f"{out}/runs"):
        name, capture = line.split()
        seen, want = [time for time, _ in read(f"{out}/{name}.pcap")], due[capture]
        if len(seen) != len(want):
            print(f"{name}: {len(seen)} of {len(want)} frames were seen: not counted")
            continue
        # Lateness beside the promptest frame: the start of the whole is no error.
        delays = [a - b for a, b in zip(seen, want)]
        promptest = min(delays)
        errors = sorted(delay - promptest for delay in delays)
        length = (seen[-1] - seen[0]) / (want[-1] - want[0]) - 1
        figures = [length * 100, *(errors[int(share * (len(errors) - 1))] / 1000 for share in (0.5, 0.99, 1))]
        said = json.load(open(f"{out}/{name}.said"))["timing_error_ns"] if name.startswith("wharf") else None
        figures += [said[key] / 1000 for key in ("p50", "p99", "max")] if said else []
        rows[(capture, name.split("-")[0])].append(figures)
    print("| schedule | tool | length, % off | late p50, us | p99 | max | own report: p50, us | p99 | max |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (capture, tool), figures in sorted(rows.items(), reverse=True):
        cells = [f"{statistics.median(column):.4f}" if at == 0 else f"{statistics.median(column):.1f}"
                 for at, column in enumerate(zip(*figures))]
        print(f"| {capture} | {tool} | " + " | ".join(cells + ["none"] * (7 - len(cells))) + " |")


{"make": make, "judge": judge}[sys.argv[1]](*sys.argv[2:])
