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
  local name=$1 try tries=${rate_seconds:+5}
  shift
  for try in $(seq "${tries:-2}"); do
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

# shaped 'PYTHON CONDITION' NAME A B FROM TO ARGUMENTS...: the condition holds over what a load and two sparse flows meet, in one of three
# runs: a machine that stands still makes delays of its own.
shaped() {
  local condition=$1
  shift
  for _ in 1 2 3; do
    shape_once "$@"
    fits got forward "$condition" && return
  done
  die "$1: $condition"
}

# shape_once NAME A B FROM TO ARGUMENTS...: offers half as much again as --rate lets through, and two flows of 50 packets a second beside
# it: DSCP 0 and EF. DSCP 1 tells the load from the first, and is in the same band. Medians: the machine stands still now and then.
shape_once() {
  local name=$1 from=$4 to=$5 at load=()
  forward "$2" "$3" --rate 20mbit "${@:6}"
  for at in "$a $from" "$c $to"; do
    ip -n $b link show "${at#* }" >/dev/null 2>&1 || continue
    ip -n $b link set "${at#* }" netns "${at% *}" && ip -n "${at% *}" link set "${at#* }" arp off up || die "$at: not moved"
  done
  receive_in_c got "$to"
  to=packet:$from
  for at in "1 --size 1000 --rate 30mbit --tos 4" "2 --size 100 --rate 50pps --tos 0" "3 --size 100 --rate 50pps --tos 0xb8"; do
    # shellcheck disable=SC2086
    send "load${at%% *}" --seconds 2 --src "192.0.2.${at%% *}" ${at#* } &
    load+=($!)
  done
  wait "${load[@]}"
  sleep 0.3
  stop got "$receiver" INT
  forwarded
  python3 - "$name" "$out/got.json" <<'P'
import json, sys
delays = {one["dscp"]: one["latency_ns"]["p50"] / 1e6 for one in json.load(open(sys.argv[2]))["latency_by_dscp"]}
print(f"  {sys.argv[1]}: of 30 Mbit/s through --rate 20mbit the load waits {delays[1]:.1f} ms, a sparse flow {delays[0]:.1f}, EF {delays[46]:.1f}")
P
}

shape() { # KIND A B FROM TO: no queue stands in front of the discipline
  shaped '(p50 := {one["dscp"]: one["latency_ns"]["p50"] / 1e6 for one in got["latency_by_dscp"]})[0] < 20 > p50[46]
    and (one := forward["directions"][0])["drops"]["by_reason"]["overlimit"] > 0 and one["qdisc"]["name"] == "fq_codel"
    and one["when_full"] == "drop-head" and 0 < one["queue_delay_ns"]["p50"] < 100e6' "$1" "${@:2:4}"
  shaped '(p50 := {one["dscp"]: one["latency_ns"]["p50"] / 1e6 for one in got["latency_by_dscp"]})[46] < 5 < p50[1] < 100
    and (one := forward["directions"][0])["drops"]["by_reason"]["drop-tail"] > 0 and one["when_full"] == "drop-tail"
    and (bands := [band["delay_ns"]["p50"] for band in one["queue_delay_by_band"]])[0] < 5e6 < bands[1]' "$1, prio" "${@:2:4}" --qdisc prio
}

long_queue() { # --when-full wait drops nothing itself, and says what it costs
  shaped '{one["dscp"]: one["latency_ns"]["p50"] / 1e6 for one in got["latency_by_dscp"]}[46] > 100
    and (one := forward["directions"][0])["qdisc"]["name"] == "fifo" and one["drops"]["by_reason"].keys() <= {"ring-full", "link-down"}' \
    "packet, wait" packet:fa packet:fb ha hb --when-full wait
  grep -q "when-full=wait: the discipline drops nothing: up to .* packets wait" "$out/forward.err" || die "it does not say what waits"
}

rates() { # KIND
  local size
  for size in 64 590 1514; do
    rate_of "$1, $size bytes" "$1:fa" "$1:fb" ha hb --size $size
  done
}

tap_rates() {
  local size
  shape tap tap:ta tap:tb ta tb
  for size in 64 590 1514; do
    rate_of "tap, $size bytes" tap:ta tap:tb ta tb --size $size
  done
  rate_of "tap, super-packets of 60 KiB" tap:ta tap:tb ta tb --size 1514 --gso 60k --frames 1024
}

super_rates() { # super-packets: of more than a millisecond, and of less
  rate_of "packet, super-packets of 60 KiB" packet:fa,gso=keep packet:fb,gso=keep ha hb --size 1514 --gso 60k --frames 1024
  holds forward '0 < 30 * forward["directions"][0]["cut_packets"] < forward["directions"][0]["pieces"]'
  rate_of "packet to xdp, super-packets of 8 KiB" packet:fa,gso=keep xdp:fb ha hb --size 1514 --gso 8k --frames 1024
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
