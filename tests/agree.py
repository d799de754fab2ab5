#!/usr/bin/env python3
"""A property over random runs: all that tells a run's counters tells the same.

Usage: tests/agree.py WHARF [ROUNDS [SEED]]

Each round makes a run of `send`, `receive` or `forward` by chance: devices, faults, a discipline, changes by `wharf set`, signals,
reloads, an end. While it runs, each view adds up: `show`, a scrape, the objects of `--stats`. At rest they are equal, and at the end the last
line of `--stats` equals the report, in JSON or as a table. In each view `accepted = sent + failed + returned + inside`. The
devices on interfaces want root and a network namespace, and are left out without. A round that fails prints its seed and its command.
"""
import json, os, pathlib, random, re, signal, socket, struct, subprocess, sys, tempfile, time

TOP = pathlib.Path(__file__).resolve().parent.parent
SAMPLE = TOP / "data/sample.pcap"
COUNTS = ["packets", "bytes", "accepted", "sent", "failed", "returned", "inside", "batches", "doorbells", "requeues"]
DISCIPLINES = ["fifo", "fifo:20", "fifo:64k", "prio", "prio:limit=30", "fq_codel", "fq_codel:limit=60,flows=8", "edt:limit=500"]
SETTINGS = ["bql=on", "bql=off", "bql=max=6000", "batching=off", "batching=on", "small-queues=off", "small-queues=4000"]
FAULTS = ["error=2%", "short=10%", "late=1%:200us", "reorder=5%", "half=3%", "lost=1%", "stall=0.5%:2ms", "alloc=3%", "never=0.1%"]


class Wrong(Exception):
    pass


def equal(what, views, keys=None):
    """Compares views, by name; each is a dictionary."""
    (first, one), *others = views.items()
    for name, other in others:
        for key in keys or sorted(one.keys() & other.keys()):
            if one.get(key) != other.get(key):
                raise Wrong(f"{what}: {key}: {first} has {one.get(key)}, {name} has {other.get(key)}\n  {one}\n  {other}")


def adds_up(what, view):
    parts = view["sent"] + view["failed"] + view["returned"] + view["inside"]
    if view["accepted"] != parts:
        raise Wrong(f"{what}: accepted {view['accepted']}, but sent, failed, returned and inside are {parts}\n  {view}")


def of_show(path):
    view = {key: path[key] for key in COUNTS} | {"received": path["received_packets"], "received_bytes": path["received_bytes"]}
    view["drops"] = path["drops"]
    if path["to"] is None:  # a receiver has those of its summary, and no transmit queue in a scrape
        if (view.pop("packets"), view.pop("bytes")) != (view["received"], view["received_bytes"]):
            raise Wrong(f"packets and bytes of a receiver are not those received: {path}")
        view.pop("batches")
    for key in COUNTS:
        total = sum(queue[key] for queue in path["queues"])
        if path["queues"] and total != path[key] and not (key in ("accepted", "returned") and path["from"]):
            raise Wrong(f"{key} by queue are {total}, in all {path[key]}: {path}")
    return view


def of_report(report, command):
    view = {key: report[key] for key in COUNTS} if command != "receive" else {}
    if command == "receive":
        view |= {"received": report["packets"], "received_bytes": report["bytes"]}
    if command == "forward":
        view["received"] = report["received_packets"]
    view["drops"] = {reason: count for reason, count in report["drops"]["by_reason"].items() if count}
    if report["drops"]["total"] != sum(view["drops"].values()):
        raise Wrong(f"drops in all are {report['drops']['total']}, by reason {view['drops']}")
    if command != "receive" and view["accepted"] - report_returned_before(report) != sum(sender["packets"] for sender in report["senders"]):
        raise Wrong(f"accepted {view['accepted']}, by sender {report['senders']}")
    return view


def report_returned_before(report):
    """Packets of a forwarder that came back before a queue accepted them are no sender's."""
    return report["accepted"] - sum(sender["packets"] for sender in report["senders"]) if "received_packets" in report else 0


def of_scrape(text, path):
    values = {}
    for name, labels, value in re.findall(r"^(\w+)\{?([^}\n]*)\}? (\d+)$", text, re.M):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if labels in [there for there, _ in values.get(name, [])]:
            raise Wrong(f"a scrape has {name} of {labels} twice")
        if labels.get("path", path) == path:
            values.setdefault(name, []).append((labels, int(value)))
    total = lambda name: sum(value for _, value in values.get(f"wharf_{name}", []))
    behind = total("queue_undelivered_packets_total")
    drops = {}
    for name in ["queue_failures", "queue_losses_behind", "queue_drops", "device_drops", "receiver_drops"]:
        for labels, value in values.get(f"wharf_{name}_packets_total", []):
            drops[labels["reason"]] = drops.get(labels["reason"], 0) + value
    drops["drop-tail"] = drops.get("drop-tail", 0) + total("sender_drops_packets_total")
    return {
        "packets": total("queue_packets_total"), "bytes": total("queue_bytes_total"), "accepted": total("sender_packets_total"),
        "sent": total("queue_sent_packets_total"), "failed": total("queue_failed_packets_total") + behind,
        "behind": behind, "returned": total("queue_returned_packets_total"), "inside": total("queue_backlog_packets") + total("queue_device_packets"),
        "batches": total("queue_batches_calls_total"), "doorbells": total("queue_doorbells_total"),
        "requeues": total("queue_requeues_packets_total"), "received": total("receiver_received_packets_total"),
        "received_bytes": total("receiver_bytes_total"), "drops": {reason: count for reason, count in drops.items() if count},
    }


def of_table(text, command):
    """Returns a view for each column of a table of plain digits."""
    rows, label = {}, ""
    names = {"packets": "packets", "accepted": "accepted", "sent": "sent", "failed": "failed", "bytes": "bytes", "offered again": "requeues",
             "returned unsent": "returned", "received": "received", "dropped": "dropped", "by reason": "reasons", "frames in use": "out"}
    for line in text.split("\n\n")[0 if command == "forward" else 1].splitlines():
        cells = re.split(r"  +", line.rstrip())
        label = cells[0] or label
        rows.setdefault(names.get(label.strip()), []).append((line, cells[1:]))
    columns = len(rows["packets"][0][1])
    view = {key: int(rows[key][0][1][0]) for key in rows if key in ("packets", "accepted", "sent", "failed", "bytes", "requeues", "returned", "dropped")}
    if columns > 1:
        return None
    if command == "receive":
        view = {"received": view["packets"], "received_bytes": view["bytes"], "dropped": view["dropped"]}
    elif command == "forward":
        view["received"] = int(rows["received"][0][1][0])
    view.setdefault("returned", 0)
    view["drops"] = {}
    for _, cells in rows.get("reasons", []):
        reason, count = cells[-1].rsplit(" ", 1)
        view["drops"][reason] = int(count)
    if view.pop("dropped") != sum(view["drops"].values()):
        raise Wrong(f"dropped is not the sum by reason: {text}")
    return view


def until(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Wrong(f"never: {what}")
        time.sleep(0.02)
    return found


class Run:
    def __init__(self, wharf, folder, chance):
        self.wharf, self.folder, self.chance = wharf, folder, chance
        self.control, self.metrics, self.stats = folder / "control", folder / "metrics", folder / "stats"
        self.beside, self.source, self.has_interfaces = [], None, "agree0" in [name for _, name in socket.if_nameindex()]
        self.command = chance.choice(["send", "send", "forward", "forward", "receive"])
        self.json = chance.random() < 0.6

    # What runs.

    def device(self, options):
        kind = self.chance.choice(options)
        if kind == "pcap":
            return f"pcap:{self.folder}/out.pcap"
        if kind == "udp":  # with a receiver that reads nothing, or one that is away
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(("127.0.0.1", 0))
            port = receiver.getsockname()[1]
            self.beside.append(receiver) if self.chance.random() < 0.6 else receiver.close()
            return f"udp:127.0.0.1:{port}"
        if kind == "wire":
            return self.chance.choice(["wire", "wire:delay=50ms", "wire:rate=5mbit", "wire:rate=100mbit,ring=32"])
        if kind == "virtio":
            self.start("receive", "--from", f"vhost-user:{self.folder}/guest")
            until("a back end", (self.folder / "guest").exists)
            return f"virtio-user:{self.folder}/guest"
        return {"null": "null", "packet": "packet:agree0", "xdp": "xdp:agree0"}[kind]

    def start(self, *arguments):
        self.beside.append(subprocess.Popen([self.wharf, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def options(self):
        chance, options = self.chance, []
        if self.command != "receive":
            options += ["--qdisc", chance.choice(DISCIPLINES)] * (chance.random() < 0.7)
            options += ["--bql", chance.choice(["on", "off", "max=6000"])] * (chance.random() < 0.3)
            options += ["--batch", chance.choice(["on", "off", "bytes=4000"])] * (chance.random() < 0.3)
            options += ["--when-full", chance.choice(["wait", "drop-tail", "drop-head"])] * (chance.random() < 0.5)
        if self.command != "forward" and chance.random() < 0.6:
            faults = chance.sample(FAULTS, chance.randint(1, 4))
            options += ["--fault", ",".join([f"seed={chance.randrange(1000)}", *faults])]
            # A device that completes no more of what it has is waited for, for ever.
            options += ["--give-up", "1s"] * ("never=0.1%" in faults)
        if self.command == "forward":
            options += ["--rate", chance.choice(["1mbit", "20mbit", "2kpps"])] * (chance.random() < 0.6)
        return options

    def sender(self):
        chance, more = self.chance, ["packet", "xdp"] * self.has_interfaces
        to, options = self.device(["null", "pcap", "udp", "wire", "virtio", *more]), self.options()
        if chance.random() < 0.5:
            self.source = subprocess.PIPE
            traffic = ["--pcap", "-", "--rate", "top"]
            if to.startswith("wire"):
                traffic += ["--batch", "on"]
        else:
            traffic = ["--size", str(chance.choice([60, 600, 1514])), "--seconds", "1.5", "--batch", "on"]
            traffic += ["--flows", "20"] * (chance.random() < 0.5)
            traffic += ["--senders", "3"] * (chance.random() < 0.4) + ["--rate", chance.choice(["20kpps", "2mbit"])] * (chance.random() < 0.6)
            traffic += ["--queues", "2"] * (to == "null" and not {"drop-tail", "--fault"} & set(options) and chance.random() < 0.4)
            traffic += ["--gso", "16k"] * (to == "null" and chance.random() < 0.2)
        if "--batch" in traffic and "--batch" in options:
            at = options.index("--batch")
            del options[at:at + 2]
        return ["send", *traffic, "--to", to, *options]

    def forwarder(self):
        chance, more = self.chance, ["packet"] * self.has_interfaces
        to = self.device(["null", "pcap", "udp", *more])
        kind = chance.choice(["pcap", "guest", "packet"][:3 if self.has_interfaces and to != "packet:agree0" else 2])
        if kind == "pcap":
            origin = f"pcap:{SAMPLE}"
        elif kind == "guest":
            origin = f"vhost-user:{self.folder}/guest"
        else:
            origin = "packet:agree1"
        self.origin = kind
        options = [origin, to, *self.options()]
        if chance.random() < 0.3 and "--qdisc" not in options:
            self.config = self.folder / "config.toml"
            self.config.write_text('qdisc = "fifo:50"\n')
            options += ["--config", str(self.config)]
        return ["forward", *options]

    def receiver(self):
        kind = self.chance.choice(["pcap", "guest", "udp", "packet"][:4 if self.has_interfaces else 3])
        port = self.chance.randint(20000, 30000)
        origin = {"pcap": f"pcap:{SAMPLE}", "guest": f"vhost-user:{self.folder}/guest", "udp": f"udp:127.0.0.1:{port}", "packet": "packet:agree1"}[kind]
        self.origin = kind
        self.port = port
        return ["receive", "--from", origin, *self.options()]

    def feed(self):
        """Has packets arrive at a receiver or a forwarder."""
        rate = self.chance.choice(["1kpps", "20kpps"])
        to = {"guest": f"virtio-user:{self.folder}/guest", "packet": "packet:agree0", "udp": f"udp:127.0.0.1:{getattr(self, 'port', 0)}"}[self.origin]
        if self.origin == "guest":
            until("a socket", (self.folder / "guest").exists)
        size = self.chance.choice(["60", "600", "1514"])
        self.start("send", "--size", size, "--rate", rate, "--seconds", str(self.chance.choice([0.4, 1])), "--flows", "30", "--to", to, "--frames", "2048")

    # Its views.

    def show(self):
        answer = subprocess.run([self.wharf, "show", str(self.control), "--json"], capture_output=True, text=True, timeout=20)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def scrape(self):
        try:
            with socket.socket(socket.AF_UNIX) as stream:
                stream.settimeout(20)
                stream.connect(str(self.metrics))
                stream.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b""
                while part := stream.recv(65536):
                    text += part
        except OSError:
            return None
        return text.decode()

    def checked(self):
        """Returns what `show` and a scrape tell now, or nothing once the run has ended."""
        shown, text = self.show(), self.scrape()
        if not shown or not shown["paths"] or not text or "# EOF" not in text:
            return None
        views = {}
        for path in shown["paths"]:
            show, scrape = of_show(path), of_scrape(text, path["path"])
            views[path["path"]] = {"show": show, "scrape": scrape}
            # A counter of a scrape never falls: what was scraped as sent, and then reported lost behind the device, stays in it.
            if 0 < scrape["sent"] - show.get("sent", scrape["sent"]) <= scrape["behind"]:
                scrape["sent"] = show["sent"]
            if path["to"]:
                adds_up("show", views[path["path"]]["show"])
        return views

    def compare_at_rest(self):
        """Waits until nothing moves, and compares the views then. They may stay in motion, by a rate."""
        before = self.checked()
        for _ in range(15):
            time.sleep(0.1)
            now = self.checked()
            if now is None or before is None:
                return False
            if now == before:
                for name, views in now.items():
                    equal(f"at rest, {name}", views)
                    if "send" in self.command or self.command == "forward":
                        adds_up("scrape", views["scrape"])
                return True
            before = now
        return False

    def set_something(self):
        chance = self.chance
        options = [f"qdisc={chance.choice(DISCIPLINES)}", chance.choice(SETTINGS), f"when-full={chance.choice(['wait', 'drop-tail', 'drop-head'])}"]
        if self.command == "forward":
            options += ["rate=5mbit", "rate=off", "rate=50mbit"]
        done = subprocess.run([self.wharf, "set", str(self.control), chance.choice(options)], capture_output=True, text=True, timeout=20)
        if done.returncode not in (0, 1, 2) or "panic" in done.stderr:
            raise Wrong(f"set: {done}")

    def disturb(self, process):
        chance = self.chance
        for _ in range(chance.randint(1, 6)):
            what = chance.choice(["set", "set", "set", "look", "usr1", "stop", "reload", "feed"])
            if process.poll() is not None:
                return
            if what == "set" and self.command != "receive":
                self.set_something()
            elif what == "look":
                self.checked()
            elif what == "usr1":
                process.send_signal(signal.SIGUSR1)
            elif what == "stop":
                process.send_signal(signal.SIGSTOP)
                time.sleep(chance.choice([0.01, 0.15]))
                process.send_signal(signal.SIGCONT)
            elif what == "reload" and hasattr(self, "config"):
                self.config.write_text(f'qdisc = "{chance.choice(DISCIPLINES)}"\n')
                process.send_signal(signal.SIGHUP)
            elif what == "feed" and self.source:
                self.write(process)
            time.sleep(chance.choice([0.01, 0.05, 0.2]))

    def write(self, process):
        """Writes records of a capture to the run, which may have ended."""
        sizes = [self.chance.choice([60, 300, 1514]) for _ in range(self.chance.choice([3, 200, 3000]))]
        frame = lambda size, at: bytes.fromhex("020000000002020000000001" "0800") + struct.pack(">I", at) * ((size - 14) // 4 + 1)
        records = (struct.pack("<IIII", 1, 0, size, size) + frame(size, at)[:size] for at, size in enumerate(sizes))
        try:
            process.stdin.write(b"".join(records))
            process.stdin.flush()
        except BrokenPipeError:
            pass

    def go(self):
        maker = {"send": self.sender, "forward": self.forwarder, "receive": self.receiver}[self.command]
        self.line = [*maker(), "--control", str(self.control), "--metrics", str(self.metrics), "--stats", "0.3", "--stats-file", str(self.stats)]
        self.line += ["--json"] * self.json
        out, errors = open(self.folder / "out", "w+"), open(self.folder / "errors", "w+")
        process = subprocess.Popen([self.wharf, *self.line], stdin=self.source or subprocess.DEVNULL, stdout=out, stderr=errors)
        self.beside.append(process)
        if self.source:
            process.stdin.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            process.stdin.flush()
            self.write(process)
        until("the run begins or ends", lambda: self.control.exists() or process.poll() is not None)
        if getattr(self, "origin", "pcap") != "pcap":
            self.feed()
        self.disturb(process)
        was_at_rest = self.source and self.chance.random() < 0.7 or getattr(self, "origin", "pcap") != "pcap"
        was_at_rest = was_at_rest and process.poll() is None and self.compare_at_rest()
        if self.source and self.chance.random() < 0.7:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
        elif self.source or self.chance.random() < 0.5 or getattr(self, "origin", "pcap") != "pcap":
            process.send_signal(self.chance.choice([signal.SIGINT, signal.SIGTERM]))
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            raise Wrong("it does not end") from None
        self.judge(process, out, errors)
        return was_at_rest

    def judge(self, process, out, errors):
        out.seek(0), errors.seek(0)
        text, said = out.read(), errors.read()
        self.said = said
        if process.returncode not in (0, 1) or "panic" in said or "add up" in said:
            raise Wrong(f"exit code {process.returncode}: {said}")
        if not text and process.returncode == 1:
            return  # It did not begin: such as a discipline that memory cannot hold.
        lines = [json.loads(line) for line in self.stats.read_text().splitlines()]
        for line in lines:
            for path in line["paths"]:
                view = of_show(path)
                if path["to"]:
                    adds_up("a line of --stats", view)
        last = {path["path"]: of_show(path) for path in lines[-1]["paths"]}
        if not last:
            return
        if self.json:
            report = json.loads(text)
            directions = report["directions"] if self.command == "forward" else [report]
            ends = [of_report(direction, self.command) for direction in directions]
            for end in ends:
                if self.command != "receive":
                    adds_up("the report", end)
        else:
            table = of_table(text, self.command)
            ends = [table] if table else []
            if table and self.command != "receive":
                adds_up("the table", table | {"inside": 0})
        for (name, line), end in zip(last.items(), ends):
            equal(f"at the end, {name}", {"the last line of --stats": line, "the report": end})

    def end(self):
        for one in self.beside:
            if isinstance(one, socket.socket):
                one.close()
            elif one.poll() is None:
                one.send_signal(signal.SIGCONT)
                one.terminate()
        for one in self.beside:
            if isinstance(one, subprocess.Popen):
                try:
                    one.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    one.kill()


def main():
    wharf, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 12
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    bad = rest = 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(wharf, pathlib.Path(folder), random.Random(seed + number))
            try:
                rest += bool(run.go())
            except Wrong as wrong:
                bad += 1
                print(f"seed {seed + number}: wharf {' '.join(getattr(run, 'line', []))}\n  {wrong}\n  {getattr(run, 'said', '')}", flush=True)
            finally:
                run.end()
    print(f"{rounds} runs from seed {seed}, {rest} of them compared at rest: {bad} disagree" if bad else
          f"{rounds} random runs from seed {seed}, {rest} of them compared at rest too: every view has the same counters")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
