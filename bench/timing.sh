#!/usr/bin/env bash
# The accuracy of a schedule beside tcpreplay, alternating in one run: a capture of 10 s at its own pace, and 64-byte
# frames at 100 kpps, over a veth pair, judged by the kernel's time stamps at the far end (tcpdump).
# Needs root, ip, tcpdump, tcpreplay, python3, two idle cores.  Usage: bench/timing.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
. tests/rig.sh
rounds=${1:-3} near=$a far=$b
space $near && space $far
pair $near va $far vb
python3 bench/timing.py make data/sample.pcap "$out"

# try NAME CAPTURE FRAMES COMMAND...: runs it in the near namespace while tcpdump records in the far one.
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
