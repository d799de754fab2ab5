"""Instructions of a packet alone by stage: from callgrind profiles of a short and a long run of Wharf and of DPDK."""

import collections
import re
import subprocess
import sys

STAGES = ["memory", "write", "accounting", "queueing", "device call", "completion", "rest"]

# The first row that matches a function or file of an instruction, inlined ones included, names its stage.
WHARF = [
    ("accounting", r"/(bql|ledger|counters|small_queue)\.rs| (account|settle)$|renew_stamp|[Cc]lock"),
    ("completion", r"netdev_queue\.rs (reap|complete)"),
    ("device call", r"/null\.rs|netdev_queue\.rs hand"),
    ("queueing", r"sender/|sender\.rs send|/state\.rs pass|/engine\.rs pass"),
    ("write", r"/burst\.rs iter_mut|/region/bytes\.rs|/slice/iter/|/adapters/"),
    ("memory", r"/pool/|/region/"),
]
DPDK = [
    ("completion", r"freed by the device"),
    ("device call", r"rte_ethdev|transmitted by the device"),
    ("queueing", r"/rte_ring"),
    ("write", r"rte_pktmbuf_append"),
    ("memory", r"/rte_(mbuf|mempool)"),
    ("write", r"dpdk_pipe\.c produce"),
]


def profile(path):
    """Returns the cost of each instruction (object, address, function), and each function called, with its caller's object."""
    cost, called, obj, function, skip = collections.Counter(), set(), "", "", False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, _, value = line.rstrip("\n").partition("=")
            match key:
                case "ob":
                    obj = value
                case "fn":
                    function = value
                case "cfn" if value:
                    called.add((obj, value))
                case "calls":
                    skip = True
                case _ if line.startswith("0x"):
                    if not skip:
                        address, _, instructions = line.split()
                        cost[obj, address, function] += int(instructions)
                    skip = False
    return cost, called


def stacks(binary, addresses):
    """Returns, for each address, its functions with their files, from the innermost inlined one outwards."""
    text = subprocess.run(
        ["addr2line", "-e", binary, "-a", "-i", "-f", "-C", *addresses], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for block in re.split(r"^(?=0x[0-9a-f]+$)", text, flags=re.M)[1:]:
        address, *lines = block.splitlines()
        pairs = zip(lines[1::2], lines[::2])
        found[int(address, 16)] = "\n".join(f"{file.split(':')[0]} {function}" for file, function in pairs)
    return found


def count(binary, few, many, packets, rules):
    """Returns the instructions a packet of each stage: the difference of two profiles `packets` apart."""
    (before, _), (after, called) = profile(few), profile(many)
    grown = {key: (after[key] - before[key]) / packets for key in after if after[key] - before[key] > packets / 64}
    of_program = stacks(binary, [address for obj, address, _ in grown if obj == binary])
    stages = collections.Counter()
    for (obj, address, function), cost in grown.items():
        where = of_program.get(int(address, 16), "") if obj == binary else function
        if "rte_net_null" in obj or function.startswith("__tls_get_addr"):
            where = ("transmitted" if (binary, function) in called else "freed") + " by the device"
        lines = where.splitlines()
        stages[next((stage for stage, rule in rules if any(re.search(rule, line) for line in lines)), "rest")] += cost
    return stages


def main():
    out, packets = sys.argv[1], int(sys.argv[2])
    print("| | " + " | ".join(STAGES) + " | sum |\n|---" + "|---" * (len(STAGES) + 1) + "|")
    for name, rules in ("wharf", WHARF), ("dpdk", DPDK):
        stages = count(f"{out}/{name}", f"{out}/{name}.few", f"{out}/{name}.many", packets, rules)
        cells = [f"{stages[stage]:.0f}" for stage in STAGES] + [f"{sum(stages.values()):.0f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")


main()
