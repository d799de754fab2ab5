# What --rate lets through between two hosts of `wharf forward`. Sourced by tests/forward.sh.
# shellcheck shell=bash disable=SC2154

# offered A B FROM TO ARGUMENTS...: offers frames from FROM, in a, at three times the 100 Mbit/s of the way through A and B, and
# measures what arrives at TO, in c. Interfaces that the forwarder makes (TAPs) go to the hosts first.
offered() {
  local from=$3 to=$4 at
  forward "$1" "$2" --rate 100mbit
  shift 4
  for at in "$a $from" "$c $to"; do
    ip -n $b link show "${at#* }" >/dev/null 2>&1 || continue
    ip -n $b link set "${at#* }" netns "${at% *}" && ip -n "${at% *}" link set "${at#* }" arp off up || die "$at: not moved"
  done
  receive_in_c got "$to"
  in_a python3 tests/forward/rate.py offer "$out" "$forwarder" \
    "$wharf" send --to "packet:$from" --json --seconds "${rate_seconds:-1}" --rate 300mbit "$@" || die "$from: the sender"
  sleep 0.3
  stop got "$receiver" INT
  forwarded
}

# rate_of NAME A B FROM TO ARGUMENTS...: as `offered`. The rate is never exceeded. A long measurement is within 1 %, by the
# numbered frames alone, from the first to the last. A run that falls short because the machine stood still is repeated.
rate_of() {
  local name=$1 try
  shift
  for try in 1 2 3 4 5; do
    offered "$@"
    python3 tests/forward/rate.py judge "$name" "$out" "$rate_seconds"
    case $? in
      0) return ;;
      3) echo "  $name: the machine stood still meanwhile: again ($try)" ;;
      *) die "$name: not that rate" ;;
    esac
  done
  [ -z "$rate_seconds" ] || die "$name: this machine stands still too much to tell"
  echo "  $name: never exceeded; how near it comes this machine, which stands still too much, does not tell"
}

rates() { # KIND
  local size
  for size in 64 590 1514; do
    rate_of "$1, $size bytes" "$1:fa" "$1:fb" ha hb --size $size
  done
}

tap_rates() {
  local size
  for size in 64 590 1514; do
    rate_of "tap, $size bytes" tap:ta tap:tb ta tb --size $size
  done
  rate_of "tap, super-packets of 60 KiB" tap:ta tap:tb ta tb --size 1514 --gso 60k --frames 1024
}

super_rates() { # super-packets: longer than the burst, and shorter
  rate_of "packet, super-packets of 60 KiB" packet:fa,gso=keep packet:fb,gso=keep ha hb --size 1514 --gso 60k --frames 1024
  holds forward '0 < 30 * forward["directions"][0]["cut_packets"] < forward["directions"][0]["pieces"]'
  rate_of "packet to xdp, super-packets of 16 KiB" packet:fa,gso=keep xdp:fb ha hb --size 1514 --gso 16k --frames 1024
  holds forward 'forward["directions"][0]["cut_packets"] == 0'
}

settled() { # INTERFACE: waits until no more packets arrive there
  local before=""
  while [ "$(received "$1")" != "$before" ]; do
    before=$(received "$1")
    sleep 0.3
  done
}

short_of_memory() { # all memory waits for the token bucket, while packets of many buffers come
  local before
  forward packet:fa,gso=keep packet:fb --rate 100mbit --frames 128
  to=packet:ha
  send flood --size 1514 --gso 60k --frames 1024 --rate 300mbit --seconds 1
  settled hb
  before=$(received hb)
  send after --size 1514 --gso 60k --frames 1024 --rate 50mbit --count 400
  arrive hb $((before + 1)) "any more once memory was short"
  forwarded
  echo "packet: less memory than what comes: it waits, and goes on"
}

rate() { # KIND: not more than rate and burst, and a mirror of what left
  forward "$1:fa" "$1:fb" --rate 20mbit --mirror "$out/mirror.pcap"
  to=packet:ha
  send load --size 1000 --rate 60mbit --seconds 1
  forwarded
  [ "$(frames "$out/mirror.pcap")" -gt 0 ] || die "$1: no mirror"
  holds forward 'forward["directions"][0]["gbps"] < 0.022 and forward["mirror"]["missed"] == 0
    and forward["mirror"]["frames"] == sum(one["sent"] for one in forward["directions"])'
  echo "$1: --rate is not exceeded, and --mirror has what left"
}
