#!/usr/bin/env bash
# How well a schedule is kept, beside tcpreplay, alternating in one run: a capture of 10 s at its own pace, and 64-byte
# frames at 100 kpps, over a veth pair; the kernel's time stamps at the far end (tcpdump) are the judge.
# Needs root, ip, tcpdump, tcpreplay, python3, two idle cores.  Usage: bench/timing.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-3}
cargo build --quiet --release -p wharf-cli
wharf=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/wharf
out=$(mktemp -d) near=wharf-near-$$ far=wharf-far-$$
trap 'ip netns del $near; ip netns del $far; rm -rf "$out"' EXIT

for space in $near $far; do
  ip netns add "$space"
  # shellcheck disable=SC2016
  ip netns exec "$space" sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done'
done
ip -n $near link add va type veth peer name vb netns $far
ip -n $near link set va arp off up
ip -n $far link set vb arp off up
python3 bench/timing.py make data/sample.pcap "$out"

# try NAME CAPTURE FRAMES COMMAND...: runs it in the near namespace while tcpdump looks on in the far one.
try() {
  local name=$1 capture=$2 frames=$3 listener
  shift 3
  timeout 30 ip netns exec $far tcpdump -i vb -B 65536 --time-stamp-precision=nano -s 64 -c "$frames" -w "$out/$name.pcap" 2>"$out/tcpdump" &
  listener=$!
  until grep -q listening "$out/tcpdump"; do sleep 0.05; done
  ip netns exec $near "$@" >"$out/$name.said" 2>&1
  wait $listener || true
  echo "$name $capture" >>"$out/runs"
}

for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  try "wharf-original-$round" original 20000 "$wharf" send --to packet:va --json --pcap "$out/original.pcap" --speed original
  try "tcpreplay-original-$round" original 20000 tcpreplay --quiet --preload-pcap --intf1=va "$out/original.pcap"
  try "wharf-paced-$round" paced 300000 "$wharf" send --to packet:va --json --pcap "$out/paced.pcap" --speed 100kpps
  try "tcpreplay-paced-$round" paced 300000 tcpreplay --quiet --preload-pcap --intf1=va --pps=100000 "$out/paced.pcap"
done
python3 bench/timing.py judge "$out"
