#!/usr/bin/env bash
# What waits where in `wharf forward A B --rate 20mbit` under more than that: 30 Mbit/s of UDP (1000-byte packets) and ten TCP flows,
# with two flows of 50 packets a second and pings beside them. A row for each kind of ends and each discipline: delays, the part of the
# rate that is used, and the reasons of drops. Needs root, ip, iperf3, python3. Leaves nothing behind.
# Usage: bench/shape.sh [ROUNDS] [SECONDS] [TEXT OF A ROW...]
# WHARF names a binary to measure in place of this tree's: one from before a change, for example.
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-3} seconds=${2:-6}
shift $(($# < 2 ? $# : 2))
space $a && space $b && space $c
# host SPACE NAME NUMBER PEER: makes one end of a pair whose other end is the forwarder's.
host() {
  ip -n "$1" link add "$2" address "02:00:00:00:00:0$3" type veth peer name "$4" netns $b
  ip -n "$1" link set "$2" up && ip -n $b link set "$4" up
}
host $a ha 1 fa
host $c hb 2 fb
python3 bench/shape.py "$wharf" "$rounds" "$seconds" $a $b $c "$@"
