#!/usr/bin/env bash
# Lookups of random destinations by wharf-net, through a sender's cache, beside the route table of Agave's own transmit loop
# (bench/peers/agave_xdp), by number of routes: instructions of a lookup by callgrind, of two runs the difference; and nanoseconds, of
# ROUNDS alternating runs the median. Both draw the same addresses, which is part of both. Needs root, ip, python3 and valgrind.
# Usage: bench/next-hop.sh [ROUNDS [ROUTES...]]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} space=wharf-next-hop-$$
shift $(($# < 1 ? $# : 1))
out=$(mktemp -d) || exit 1
trap 'ip netns del $space 2>/dev/null; rm -r "$out"' EXIT
cargo build --quiet --release -p wharf-net --example million
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
CARGO_TARGET_DIR=$target/peers cargo build --quiet --release --manifest-path bench/peers/agave_xdp/Cargo.toml --ignore-rust-version
ours=$target/release/examples/million theirs=$target/peers/release/agave_xdp_routes

within() { ip netns exec "$space" "$@"; }

counted() { # COMMAND...: prints its instructions
  within valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 | sed -n 's/.*Collected : //p'
}

each() { # COMMAND...: prints the instructions of a lookup
  local none many
  none=$(counted "$@" 0) many=$(counted "$@" 200000)
  echo $(((many - none) / 200000))
}

timed() { # prints the medians of nanoseconds
  local round
  for round in $(seq "$rounds"); do
    within "$ours" count 3000000
    within "$theirs" 3000000
  done | python3 -c 'import re, statistics, sys
ns = [float(re.search(r"([\d.]+) ns", line)[1]) for line in sys.stdin]
print(*(f"{statistics.median(ns[at::2]):.0f}" for at in (0, 1)), f"{statistics.median(one / other for one, other in zip(ns[::2], ns[1::2])):.2f}")'
}

printf '%-8s %12s %6s   %4s %6s %6s\n' routes instructions agave ns agave ratio
for routes in "${@:-1 10 100 1000 50000}"; do
  for count in $routes; do
    ip netns add "$space"
    ip -n "$space" link add a1 type veth peer name b1
    for link in lo a1 b1; do ip -n "$space" link set $link up; done
    ip -n "$space" addr add 10.1.0.1/24 dev a1
    python3 - "$count" >"$out/routes" <<'PYTHON'
import random, sys
draw, found = random.Random(46), set()
while len(found) < int(sys.argv[1]) - 1:
    found.add((16 << 24) + (draw.randrange(200 << 24) >> 8 << 8))
print("route add default via 10.1.0.2")
for at, to in enumerate(found):
    print(f"route add {to >> 24}.{to >> 16 & 255}.{to >> 8 & 255}.0/24 via 10.1.0.{2 + at % 60}")
PYTHON
    ip -n "$space" -batch "$out/routes"
    for at in $(seq 2 62); do ip -n "$space" neigh add 10.1.0.$at lladdr 02:00:00:00:00:01 dev a1; done
    # shellcheck disable=SC2046
    printf '%-8s %12s %6s   %4s %6s %6s\n' "$count" "$(each "$ours" count)" "$(each "$theirs")" $(timed)
    ip netns del "$space"
  done
done
