#!/usr/bin/env bash
# The back end of a network device is killed and started again, time after time, under numbered streams both ways. The driver is a
# guest's, in QEMU's virtio-net (configurations of `guest`), or our own, `virtio-user` (of `own`): split and packed rings, in order or
# not, with one queue pair and four. QEMU has no rings in order here: with them it hangs when any back end ends. Of two rounds one
# ends by SIGKILL, and one by SIGTERM, whose account must be whole.
#
# A table has by configuration: the time until the streams went on, from the kill and from the driver's connection; packets that came
# twice or changed; those lost that were under way at a kill, were sent during an outage, or were dropped by name. Others are a fault.
# Needs root. Ends with 77, and its reason, without busybox, and where a guest is wanted whose kernel and QEMU are not to be had
# (tests/nics/fetch.sh).
# Usage: tests/restarts.sh [CONFIGURATION]..., such as guest-split-4 or own-packed-in_order-1; KILLS is the number of each
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
command -v busybox >/dev/null || { echo "no busybox, which sends the pings (package busybox-static)"; exit 77; }
. tests/rig.sh
. tests/guest-rig.sh
. tests/guest/streams.sh
kills=${KILLS:-20}
all=$(echo {guest-{split,packed},own-{split,packed}{,-in_order}}-{1,4})

# start_in_a NAME 'LINE WHEN READY' COMMAND...: starts it in namespace a, as `start` does in b.
start_in_a() { local there=("${here[@]}"); start "$@"; }

back_end() { # starts the back end, process $back, whose counters go to a file as they grow
  life=$((life + 1))
  start back forwarding "$wharf" forward "vhost-user:$out/vm.sock,queues=$pairs" tap:w0,persist=on \
    --json --stats 0.1 --stats-file "$out/stats.$life"
  back=$pid
}

# The far end is a guest, or our own driver before a TAP in another namespace. Each has functions that begin and end it, start a
# program there by a name, interrupt that, bring its files here, and say when the driver connected.
guest_begins() {
  # shellcheck disable=SC2046
  start_guest adapter=virtio_net -qmp "unix:$out/qmp,server=on,wait=off" $(card vm.sock)
  python3 tests/guest/qmp.py "$out/qmp" events NETDEV_VHOST_USER_CONNECTED >"$out/connections" &
  guest_interface
}
guest_rebinds() {
  guest "rebind eth0"
  guest_interface
}
guest_shows() {
  # shellcheck disable=SC2016
  guest 'for i in /sys/class/net/eth0/queues/tx-*/byte_queue_limits; do echo $i $(cat $i/inflight $i/limit); done; tc -s qdisc show dev eth0; grep virtio /proc/interrupts'
  echo "$reply"
}
guest_ends() { halt; }

own_begins() {
  start_in_a front forwarding "$wharf" forward "virtio-user:$out/vm.sock,queues=$pairs,reconnect=on,packed=$packed,in_order=$in_order" \
    tap:w1,persist=on --log json --json
  front=$pid
  interface $a w1 02:00:00:00:00:02 $far 02:00:00:00:00:01 $near
}
own_starts() {
  start_in_a "$@"
  own[$1]=$pid
}
own_rebinds() { :; }
own_interrupts() { stop "$1" "${own[$1]}" INT; }
own_gives() { :; }
own_shows() { ip netns exec $a tc -s qdisc; }
own_figures() { ip netns exec $a $1 >"$out/$2" || die "$1"; } # without quotes: a command in words
own_ends() {
  stop front "$front" TERM
  holds front 'all(one["pool"]["out"] == 0 for one in front["directions"])'
}
declare -A own

restart() {
  local signal=KILL
  [ $((round % 2)) -eq 0 ] || signal=TERM
  mark $signal
  if [ $signal = KILL ]; then kill -9 "$back" && wait "$back" 2>/dev/null; else stop back "$back" TERM && cp "$out/back.json" "$out/back.$life.json"; fi
  mark gone
  back_end
  mark up
  until_on && return
  stuck=$((stuck + 1))
  echo "$1, round $round: no reply 15 s after SIG$signal: $(grep virtqueue "$out/back.err")"
  "${driver}_rebinds"
}

# look CONFIGURATION: prints what the queues of the far end and the back end show, if a flow from there is silent for two seconds.
look() {
  local flows
  flows=$(python3 tests/guest/restarts.py silent "$out")
  [ -n "$flows" ] && sleep 1.3 && flows=$(python3 tests/guest/restarts.py silent "$out")
  [ -n "$flows" ] || return
  echo "$1, round $round: no packet of flows $flows; the back end shows:"
  for _ in 1 2; do
    "$wharf" show "$back" --json | python3 -c 'import json, sys; print(json.dumps([path.get("device") for path in json.load(sys.stdin)["paths"]]))'
    "${driver}_shows"
    sleep 1
  done
}

# until_on: waits until replies come from the far end again, 15 s at most.
until_on() {
  local before now
  before=$(grep -c 'bytes from' "$out/ping.err")
  for _ in $(seq 150); do
    now=$(grep -c 'bytes from' "$out/ping.err")
    [ "$now" -ge $((before + 3)) ] && return
    sleep 0.1
  done
  return 1
}

trial() { # CONFIGURATION
  IFS=- read -r driver layout order pairs <<<"$1-"
  [ "$order" = in_order ] && in_order=auto || { in_order=off pairs=$order; }
  pairs=${pairs%-} life=0 stuck=0 seconds=$SECONDS
  [ "$layout" = packed ] && packed=on || packed=off
  rm -f "$out"/{marks,connections,stats.*,back.*.json,front.*}
  back_end
  interface $b w0 02:00:00:00:00:01 $near 02:00:00:00:00:02 $far
  "${driver}_begins"
  streams 1000
  start ping "" sh -c "exec busybox ping -i 0.1 $far >&2"
  local ping=$pid
  until_on && soon python3 tests/guest/restarts.py begun "$out" $((2 * pairs)) || die "$1: no traffic before the first kill"
  for ((round = 0; round < kills; round++)); do
    restart "$1"
    sleep 0.7
    look "$1"
  done
  kill $ping
  settle
  "${driver}_ends"
  stop back "$back" TERM
  cp "$out/back.json" "$out/back.$life.json"
  python3 tests/guest/restarts.py "$1" "$out" "$stuck" $((SECONDS - seconds)) || failed=1
}

failed=0
space $a
space $b
python3 tests/guest/restarts.py
[ $# -gt 0 ] || set -- $all
case "$*" in *guest*) guest_image ;; esac
for one; do trial "$one"; done
exit $failed
