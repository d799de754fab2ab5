#!/usr/bin/env bash
# Payloads of 1 to 16 producers, each to 200 destinations (1274-byte packets), over a veth of one queue: Agave's own loop
# (bench/peers/agave_xdp), and crates/wharf/examples/retransmit by xdp: alone and by xdp: and packet: beside each other. They
# alternate in one run. Needs root, ip, python3, 2 processors. Usage: bench/retransmit.sh [ROUNDS] [SECONDS] [PRODUCERS...]
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release -p wharf --example retransmit
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
CARGO_TARGET_DIR=$target/peers cargo build --quiet --release --manifest-path bench/peers/agave_xdp/Cargo.toml --ignore-rust-version
WHARF=$target/release/examples/retransmit
. tests/rig.sh
rounds=${1:-5} seconds=${2:-2}
shift $(($# < 2 ? $# : 2))
space $a && space $b
pair $a va $b vb
ip -n $a addr add 10.9.0.1/24 dev va
# Frames for nobody: the far end drops them early.
ip -n $a neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev va nud permanent
ip -n $a route add 10.77.0.0/16 via 10.9.0.2
ip netns exec $a python3 bench/retransmit.py "$wharf" "$target/peers/release/agave_xdp_loop" "$rounds" "$seconds" "${@:-1 2 4 8 16}"
