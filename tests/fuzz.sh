#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS; by default 10 s, and 30 s for input that peers write. A target keeps one processor busy,
# so as many run at a time as there are processors.
set -eu
cd "$(dirname "$0")/../fuzz"
rustup toolchain list | grep -q '^nightly' || { echo "the fuzz targets want a nightly toolchain"; exit 1; }
mkdir -p corpus/pcap corpus/pcapng corpus/headers corpus/packet
head -c 20000 ../data/sample.pcap >corpus/pcap/sample
# An interface with a resolution, an enhanced and a simple packet; the leading 0 stands for little-endian.
printf '\0\1\0\0\0\34\0\0\0\1\0\0\0\0\0\0\0\11\0\1\0\11\0\0\0\34\0\0\0' >corpus/pcapng/blocks
printf '\6\0\0\0\44\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\4\0\0\0abcd\44\0\0\0' >>corpus/pcapng/blocks
printf '\3\0\0\0\24\0\0\0\4\0\0\0abcd\24\0\0\0' >>corpus/pcapng/blocks
mkdir -p corpus/rtnetlink
cp ../crates/wharf-net/tests/data/*.nl corpus/rtnetlink
# A cooked packet with a check sequence of 2 bytes.
mkdir -p corpus/links
printf '\5\1\0\0\0\1\0\6\2\0\0\0\0\1\0\0\10\0\105%022d' 0 >corpus/links/cooked
mkdir -p corpus/nics
cp ../lab/wharf-plan/nics/*.toml corpus/nics
# For each NIC, twice: packets out and in, let time pass, reap, receive.
mkdir -p corpus/nic_pairs
for which in 0 1 2 3; do
  for _ in 1 2; do printf '\0\10\3\10\7\377\7\377\7\377\1\2'; done | { printf "\\$which"; cat; } >"corpus/nic_pairs/$which"
done
# A TCP super-packet behind its header, in the byte order of most machines.
mkdir -p corpus/vnet
printf '\1\1\66\0\144\0\42\0\20\0\2\0\0\0\0\2\2\0\0\0\0\1\10\0\105\0\1\54\0\0\100\0\100\6\0\0' >corpus/vnet/tcp
printf '\300\0\2\1\306\63\144\1\4\0\0\120\0\0\0\1\0\0\0\0\120\20\0\0\0\0\0\0%0260d' 7 >>corpus/vnet/tcp
# A generated packet: Ethernet, IPv4, UDP to port 9, the stamp.
printf '\2\0\0\0\0\2\2\0\0\0\0\1\10\0\105\0\0\56\0\0\100\0\100\21\0\0\300\0\2\1\306\63\144\1' >corpus/headers/stamped
printf '\4\0\0\11\0\32\0\0WH\0\0\0\0\0\0\0\7\0\0\1\0\0\0\0\0' >>corpus/headers/stamped
cp corpus/headers/stamped corpus/packet/ipv4
# Ethernet, a VLAN tag, IPv6, a routing header with a segment left, destination options, UDP.
{
  printf '\2\0\0\0\0\2\2\0\0\0\0\1\201\0\0\5\206\335\140\2\0\0\0\50\53\100%032d' 0
  printf '\74\2\2\1\0\0\0\0%016d\21\0\1\4\0\0\0\0\0\7\0\11\0\10\0\0' 1
} >corpus/packet/ipv6

# Four frames, two of them complete, a datagram from 10.0.0.1, a completion of a request never posted, notifications.
mkdir -p corpus/verbs
printf '\1\0\100\56\21\142%020d\105%011d\12\0\0\1%04d\10\0\0\0%046d\43\77\0\0\0\0\1\0\0\0\0\0\0\0\4\7' 0 0 0 0 >corpus/verbs/run

export out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

fuzz() { # TARGET
  local seconds log=$out/$1
  # Input that an untrusted peer writes is fuzzed longer.
  # `headers` and `packet` both feed the header parser, and share its time.
  case $1 in virtqueues | vhost_messages | vhost_sessions | intel_rings) seconds=30 ;; headers | packet) seconds=5 ;; *) seconds=10 ;; esac
  if ! cargo +nightly fuzz run --sanitizer none "$1" -- -max_total_time="${FUZZ_SECONDS:-$seconds}" -max_len=20000 \
    -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz target $1 failed"
    return 1
  fi
  echo "$1: $(grep -o 'executed_units: .*' "$log")"
}
export -f fuzz

cargo +nightly fuzz build --sanitizer none >"$out/build" 2>&1 || { tail -n 40 "$out/build"; exit 1; }
# The longest first.
printf '%s\n' virtqueues vhost_messages vhost_sessions intel_rings verbs rtnetlink pcap pcapng links words segments vnet nics cx5_completions cx5_entries nic_pairs headers packet |
  xargs -P "$(nproc)" -I '{}' bash -c 'fuzz "$1"' - '{}'
