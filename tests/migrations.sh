#!/usr/bin/env bash
# A running guest moves between two QEMUs, whose network cards are two wharfs of this machine, there and back, time after time. Both TAPs
# are ports of one bridge. Numbered streams go both ways; then, once more there and back, TCP. A table has by configuration: the downtime
# as QEMU says it; packets that came twice or changed; those lost that were sent while the guest could not be reached, and others, which
# are a fault. The guest cannot be reached from when QEMU stops its rings until the bridge has its address at the other port.
# Needs root. Ends with 77, and its reason, where kernel and QEMU are not to be had (tests/nics/fetch.sh).
# Usage: tests/migrations.sh [LAYOUT-PAIRS]..., such as split-1; TIMES is the number of journeys there and back, PPS
# that of packets a second each way
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
. tests/guest/streams.sh
times=${TIMES:-5} driver=guest
guest_image

# embark AT OPTIONS...: starts QEMU of place AT (0 or 1).
embark() {
  local at=$1 name
  shift
  for name in qmp events; do rm -f "$out/$name.$at"; done
  # shellcheck disable=SC2046
  launch_guest "place$at" "adapter=virtio_net no_timer_check" -qmp "unix:$out/qmp.$at,server=on,wait=off" \
    -qmp "unix:$out/events.$at,server=on,wait=off" -msg timestamp=on -trace vhost_user_write $(card "vm.$at") "$@"
  soon test -S "$out/events.$at" || die "place$at: QEMU does not open the socket of its events within a minute"
  python3 tests/guest/qmp.py "$out/events.$at" events STOP RESUME >>"$out/stops" &
}

# has_arrived: the migration has ended, well or not.
has_arrived() { qmp query-migrate && grep -qE '"status": "(completed|failed)"' "$out/qmp.json"; }

# journey FROM TO: moves the guest, and ends QEMU where it was.
journey() {
  local before=$qemu
  embark "$2" -incoming "unix:$out/journey"
  monitor=$out/qmp.$1
  soon test -S "$out/journey" || die "place$2: QEMU does not listen for the guest within a minute"
  qmp migrate "uri=unix:$out/journey"
  soon has_arrived || die "no end of the migration from place$1 within a minute: $(cat "$out/qmp.json" "$out"/place*.err)"
  grep -q '"status": "completed"' "$out/qmp.json" || die "no migration: $(cat "$out/qmp.json" "$out"/place*.err)"
  cat "$out/qmp.json" >>"$out/journeys"
  # Its request 11 is GET_VRING_BASE.
  grep -m 1 'req:11 ' "$out/place$1.err" >>"$out/rings" || die "no ring stopped"
  kill -9 "$before" && wait "$before" 2>/dev/null
  rm -f "$out/journey"
  attach "place$2"
  sleep 1
}

# tcp: both ways it moves bytes after a journey there and back.
tcp() {
  local load
  guest_starts iperf listening iperf3 -s --forceflush
  start load "" iperf3 -c $far --bidir -b 2M -t 10000 --forceflush
  load=$pid
  sleep 3
  journey 0 1
  journey 1 0
  sleep 5
  [ "$(tail -n 8 "$out/load.json" | grep -c '\[.X-C\].*[1-9][0-9.]* .bits/sec')" -gt 0 ] || die "TCP stands: $(tail -n 8 "$out/load.json")"
  stop load "$load" INT
}

trial() { # CONFIGURATION
  local at round moves
  pairs=${1#*-} packed=off
  [ "${1%-*}" = split ] || packed=on
  rm -f "$out"/{marks,stops,rings,journeys}
  ip -n $b link add br0 type bridge forward_delay 0 && interface $b br0 02:00:00:00:00:01 $near 02:00:00:00:00:02 $far
  for at in 0 1; do
    start "wharf$at" forwarding "$wharf" forward "vhost-user:$out/vm.$at,queues=$pairs,mac=02:00:00:00:00:02" "tap:w$at,persist=on" --json
    wharfs[$at]=$pid
    ip -n $b link set "w$at" master br0 up || die "no port of the bridge"
  done
  start moves "" bridge -t monitor fdb
  moves=$pid
  embark 0
  attach place0
  answer =ready
  guest_interface
  streams "${PPS:-200}"
  sleep 3
  for ((round = 0; round < times; round++)); do
    journey 0 1
    journey 1 0
  done
  settle
  for at in 0 1; do "$wharf" show "${wharfs[$at]}" --json >"$out/shown$at.json" || die "wharf$at shows nothing"; done
  python3 tests/guest/migrations.py "$1" "$out" || failed=1
  tcp
  halt
  for at in 0 1; do
    stop "wharf$at" "${wharfs[$at]}" TERM
    holds "wharf$at" 'all(one["pool"]["out"] == 0 for one in wharf'$at'["directions"])'
  done
  ip -n $b link del br0
  stop moves "$moves" TERM
}

declare -A wharfs
failed=0
space $b
[ $# -gt 0 ] || set -- split-1 packed-1 split-4 packed-4
for one; do trial "$one"; done
exit $failed
