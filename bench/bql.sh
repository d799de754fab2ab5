#!/usr/bin/env bash
# Byte queue limits at work on real devices: two senders of full frames and a sparse flow of the first band, over a veth pair
# whose far end goes through an ifb with `tbf rate 100mbit`; with the byte limit off and on, alternating. Prints a table of
# medians, and with PLOT=docs/bql.svg draws that picture. Needs root, ip, tc, ifb, tbf, macvlan, python3.
# Usage: bench/bql.sh [ROUNDS] [SECONDS]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
space $a && space $b
pair $a va $b vb
slow_wire $b vb 100mbit || die "no slow wire: $missing"
python3 bench/bql.py "$wharf" $a $b --rounds "${1:-5}" --seconds "${2:-5}" ${PLOT:+--plot "$PLOT"}
