#!/usr/bin/env bash
# Datagrams of 18 and 1200 bytes over loopback to a plain socket that only receives: one sendto each, sendmmsg and segments
# by the least loop (bench/peers/udp_probe.c), quinn-udp (bench/peers/quinn_udp, 1200 bytes), and wharf, with a frame per
# datagram and with super-packets as long as quinn-udp's. Each datagram is written anew. They alternate in one run, with the
# sender always on one processor and the receiver on another. Needs gcc, python3, 2 processors; no privileges.
# Usage: bench/udp.sh [ROUNDS] [SECONDS] [CPU] [GRO: 1 if the kernel joins datagrams for the receiver, else 0]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-1} cpu=${3:-1} gro=${4:-1}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

cargo build --quiet --release -p wharf-cli
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
CARGO_TARGET_DIR=$target/peers cargo build --quiet --release --manifest-path bench/peers/quinn_udp/Cargo.toml
gcc -O2 -Wall -o "$out/probe" bench/peers/udp_probe.c
python3 bench/udp.py "$target/release/wharf" "$out/probe" "$target/peers/release/quinn_udp_probe" "$rounds" "$seconds" "$cpu" "$gro"
