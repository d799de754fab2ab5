#!/usr/bin/env bash
# A million routes in a network namespace: time and memory of wharf-net's dump, time of a lookup and of a repeat, and what it costs
# to follow 10,000 changes a second. With `instructions`, lookups are counted by callgrind as well: of two runs, the difference.
# Needs root, ip, python3 (and valgrind).  Usage: bench/net.sh [PREFIXES_V4 [PREFIXES_V6 [instructions]]]
set -eu
cd "$(dirname "$0")/.."
v4=${1:-900000} v6=${2:-100000} space=wharf-net-$$
out=$(mktemp -d) || exit 1
trap 'ip netns del $space 2>/dev/null; rm -r "$out"' EXIT
cargo build --quiet --release -p wharf-net --example million
million=${CARGO_TARGET_DIR:-target}/release/examples/million

ip netns add "$space"
ip -n "$space" link add a1 type veth peer name b1
for link in lo a1 b1; do ip -n "$space" link set $link up; done
ip -n "$space" addr add 10.1.0.1/24 dev a1
ip -n "$space" addr add fd01::1/64 dev a1 nodad
ip netns exec "$space" sysctl -qw net.ipv6.route.max_size=10000000
# Prefixes of the lengths that the Internet's tables have, by 60 gateways, and a default route.
python3 - "$v4" "$v6" >"$out/routes" <<'PYTHON'
import ipaddress, random, sys
draw = random.Random(46)
def prefixes(count, lengths, first, bits, size):
    found = set()
    while len(found) < count:
        length = draw.choice(lengths)
        found.add(((first + draw.randrange(size)) >> bits - length << bits - length, length))
    return found
v4 = [24] * 60 + [23] * 10 + [22] * 12 + [21] * 5 + [20] * 5 + [19] * 3 + [18] * 2 + [17, 16, 16]
v6 = [48] * 47 + [32] * 15 + [44] * 8 + [40] * 8 + [36] * 6 + [29] * 4 + [33] * 3 + [46] * 5 + [47] * 4
print("route add default via 10.1.0.2\nroute add default via fd01::2")
for at, (address, length) in enumerate(prefixes(int(sys.argv[1]), v4, 16 << 24, 32, 200 << 24)):
    print(f"route add {ipaddress.IPv4Address(address)}/{length} via 10.1.0.{2 + at % 60}")
for at, (address, length) in enumerate(prefixes(int(sys.argv[2]), v6, 0x2a << 120, 128, 1 << 120)):
    print(f"route add {ipaddress.IPv6Address(address)}/{length} via fd01::{2 + at % 60:x}")
PYTHON
ip -n "$space" -batch "$out/routes"
for at in $(seq 2 62); do ip -n "$space" neigh add 10.1.0.$at lladdr 02:00:00:00:00:01 dev a1; done

# Ten thousand changes a second, for ten seconds, while the mirror follows.
python3 - >"$out/changes" <<'PYTHON'
for at in range(100_000):
    print(f"route replace {100 + at % 50}.{at // 50 % 200}.{at // 10_000}.0/24 via 10.1.0.{2 + at % 59}")
PYTHON
{ sleep 6; split -l 1000 --filter="ip -n $space -batch -; sleep 0.08" "$out/changes"; } &
ip netns exec "$space" "$million" 20
wait
[ "${3:-}" = instructions ] || exit 0
count() { # LOOKUPS
  ip netns exec "$space" valgrind --tool=callgrind --callgrind-out-file=/dev/null "$million" count "$1" 2>&1 | sed -n 's/.*Collected : //p'
}
few=$(count 0) many=$(count 1000000)
echo "instructions of a lookup through a cache, each of another destination: $(((many - few) / 1000000))"
