#!/usr/bin/env bash
# A capture through the path and into a file again, as tcpdump and tshark (independent programs) read it.
set -eu
cd "$(dirname "$0")/.."
wharf=$(tests/build.sh)/wharf
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
for mode in on off bytes=4000; do
  "$wharf" send --pcap data/sample.pcap --loop 1 --batch "$mode" --to "pcap:$out/$mode.pcap" --json >/dev/null
  # Everything but the time stamps: link, network and transport headers, and all bytes in hex.
  tcpdump -tnnexr data/sample.pcap 2>/dev/null >"$out/want"
  tcpdump -tnnexr "$out/$mode.pcap" 2>/dev/null >"$out/got"
  cmp "$out/want" "$out/got"
  echo "batch $mode: $(grep -c $'^[^\t]' "$out/got") packets, equal as tcpdump prints them"
done
fields="-T fields -e frame.len -e eth.src -e vlan.id -e ip.checksum.status -e tcp.checksum.status -e udp.checksum.status -e _ws.col.Protocol"
options="-o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE"
tshark -r data/sample.pcap $options $fields 2>/dev/null >"$out/want"
tshark -r "$out/on.pcap" $options $fields 2>/dev/null >"$out/got"
cmp "$out/want" "$out/got"
# Generated packets: tshark finds every checksum good (status 0 is bad).
for how in "--size 60" "--imix" "--size 300 --vlan 7" "--size 200 --src fd00::1 --dst fd00::2" "--size 1514 --flows 50"; do
  # shellcheck disable=SC2086
  "$wharf" send $how --count 500 --to "pcap:$out/gen.pcap" --json >/dev/null
  tshark -r "$out/gen.pcap" $options -Y udp -T fields -e ip.checksum.status -e udp.checksum.status -e _ws.malformed 2>/dev/null >"$out/fields"
  # Both sums are good, nothing is malformed; IPv6 has one sum.
  all=$(wc -l <"$out/fields") bad=$(grep -vcE $'^1?\t1\t$' "$out/fields" || true)
  echo "generated $how: $all packets, $bad bad"
  [ "$bad" -eq 0 ] && [ "$all" -eq 500 ]
done
# pcapng as editcap, tshark and mergecap write it (three interfaces, two units of time), and as none of them writes it (both
# byte orders, offsets, obsolete packets). Wharf reads it and writes pcap, in which tshark sees the same packets and times.
sample=data/sample.pcap
editcap -F pcapng "$sample" "$out/edited.pcapng"
editcap -s 64 -F pcapng "$sample" "$out/cut.pcapng"
tshark -r "$sample" -F pcapng -w "$out/shark.pcapng" 2>/dev/null
editcap -F nsecpcap -t 0.0001234567 "$sample" "$out/nano.pcap"
mergecap -F pcapng -w "$out/merged.pcapng" "$out/nano.pcap" "$sample" "$out/edited.pcapng"
python3 tests/pcapng.py "$sample" "$out/odd.pcapng"
same() { # NAME PCAPNG PCAP: tshark prints the same for both
  for file in "$2" "$3"; do
    tshark -n -r "$file" -T fields -e frame.time_epoch -e frame.cap_len >"$file.said" 2>/dev/null
    tshark -n -r "$file" -x 2>/dev/null | md5sum >>"$file.said"
  done
  cmp "$2.said" "$3.said"
  echo "pcapng by $1: $(($(wc -l <"$3.said") - 1)) packets, equal as tshark reads them"
}
for name in edited cut shark merged odd; do
  "$wharf" receive --from "pcap:$out/$name.pcapng,snapped=send" --pcap "$out/$name.pcap" --json >/dev/null 2>&1
  same "$name" "$out/$name.pcapng" "$out/$name.pcap"
done
mkdir "$out/captures"
python3 tests/captures.py "$wharf" "$out/captures"
"$wharf" send --pcap "$out/odd.pcapng" --loop 1 --to "pcap:$out/resent.pcap" --json >/dev/null
tcpdump -tnnexr "$sample" 2>/dev/null >"$out/want"
tcpdump -tnnexr "$out/resent.pcap" 2>/dev/null | cmp "$out/want" -
