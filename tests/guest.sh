#!/usr/bin/env bash
# A real Linux guest whose network is `wharf forward vhost-user:SOCKET tap:NAME`, under QEMU without hardware acceleration: with
# split and packed rings, one queue pair (in this machine's QEMU) and two (in that of tests/nics.sh): pings, 64 MiB both ways with
# equal sums, the interface switched off and on, its driver unbound and bound, its line down and up, wharf killed and restarted. Then the effect
# of NAPI on the guest's transmit side. Needs root. Ends with 77, and its reason, where the kernel is not to be had
# (tests/nics/fetch.sh). Usage: tests/guest.sh [network|napi]...; PACKED=on|off and PAIRS=N pick among the networks
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
guest_image
host=10.77.0.1 inside=10.77.0.2

space $b
ip netns exec $b ip tuntap add w0 mode tap || die "no tap"
ip -n $b addr add $host/24 dev w0
head -c 64M /dev/urandom >"$out/file"
sum=$(md5sum <"$out/file")

forward() { # PAIRS [MORE KEYS]: starts wharf; its process is $wharf_pid
  start forward "wharf: forwarding" "$wharf" forward "vhost-user:$out/vm.sock,queues=$1" tap:w0,persist=on --json
  wharf_pid=$pid
  ip -n $b link set w0 up || die "the tap stays down"
}

# boot PACKED PAIRS [NAPI]: starts the guest. It has no MSI-X: QEMU 7.2 crashes with it under vhost-user without hardware acceleration.
boot() {
  local packed=$1 pairs=$2 vectors=0 emulator=""
  [ "$pairs" -gt 1 ] || emulator=qemu-system-x86_64
  # shellcheck disable=SC2046
  start_guest "adapter=virtio_net napi_tx=${3:-1}" $(card vm.sock)
  guest "ip addr add $inside/24 dev eth0 && ip link set eth0 up" || die "the guest has no interface"
}

pings() { # WHEN: succeeds within some seconds, while addresses are resolved and links come up
  for _ in $(seq 20); do
    guest "ping -c 2 -W 1 $host" && return
  done
  die "$1: no ping: $reply; wharf says: $(cat "$out/forward.err")"
}

# carry FILE: sends it to the guest and back, with equal sums.
carry() {
  local want
  want=$(md5sum <"$1")
  printf '%s\n' "nc -l -p 5000 >/file" >&3
  within 200 ip netns exec $b python3 tests/guest/carry.py send $inside 5000 "$1" || die "nothing reaches the guest"
  answer "=ended "
  guest "md5sum </file"
  [ "${reply%%[[:space:]]*}" = "${want%% *}" ] || die "another file reached the guest: $reply"
  start carry listening python3 tests/guest/carry.py receive 5001 "$out/back"
  local receiver=$pid
  guest "nc $host 5001 </file" || die "the guest cannot send: $reply"
  ended carry "$receiver"
  [ $code -eq 0 ] || die "nothing comes from the guest"
  [ "$(md5sum <"$out/back")" = "$want" ] || die "another file came from the guest"
}

finish() { # ends wharf, whose account must be whole
  stop forward "$wharf_pid" TERM
  [ $code -eq 0 ] || die "wharf: exit code $code"
  holds forward 'all(one["pool"]["out"] == 0 and one["packets"] > 0 for one in forward["directions"])'
}

has_carrier() { # 0|1: the guest's interface has none, or one
  guest "cat /sys/class/net/eth0/carrier"
  [ "${reply%%[[:space:]]*}" = "$1" ]
}

line() { # down|up 0|1: sets the line; then the guest has no carrier, or one
  "$wharf" set "$wharf_pid" "vhost-user:$out/vm.sock.link=$1" >"$out/set.err" 2>&1 || die "link=$1"
  soon has_carrier "$2" || die "link=$1: the guest's carrier is $reply"
}

network() { # PACKED PAIRS
  forward "$2"
  boot "$1" "$2"
  guest "ls /sys/class/net/eth0/queues | grep -c ^tx" && [ "${reply%%[[:space:]]*}" -eq "$2" ] || die "other queues: $reply"
  pings "first"
  carry "$out/file"
  guest "ip link set eth0 down && sleep 1 && ip link set eth0 up"
  pings "down and up"
  guest "cd /sys/bus/virtio/drivers/virtio_net && echo virtio0 >unbind && echo virtio0 >bind && cd /" || die "unbind: $reply"
  guest "ip addr add $inside/24 dev eth0 && ip link set eth0 up"
  pings "unbound and bound"
  line down 0
  line up 1
  pings "line down and up"
  head -c 4M "$out/file" >"$out/part"
  carry "$out/part"
  kill -9 "$wharf_pid"
  wait "$wharf_pid" 2>/dev/null
  forward "$2"
  pings "killed and started again"
  carry "$out/part"
  finish
  forward "$2"
  pings "ended and started again"
  carry "$out/part"
  finish
  halt
  echo "packed=$1, $2 queue pairs: pings, 64 MiB both ways, down and up, unbound and bound, line down and up, wharf killed, wharf ended"
}

# told: prints the number of kicks by the guest. No process reads those counters.
told() {
  local total=0 counter
  while read -r _ counter; do total=$((total + 16#$counter)); done < <(grep -hs ^eventfd-count: /proc/"$wharf_pid"/fdinfo/*)
  echo $total
}

count() { # PATTERN: prints the guest's count of interrupts whose line matches
  guest "grep '$1' /proc/interrupts | awk '{ print \$2 + \$3 }'"
  echo "${reply%%[[:space:]]*}"
}

statistic() {
  guest "cat /sys/class/net/eth0/statistics/$1"
  echo "${reply%%[[:space:]]*}"
}

napi() {
  printf '%-8s %9s %14s %11s %8s\n' napi_tx packets "bytes/packet" interrupts kicks
  for way in 0 1; do
    forward 1
    boot off 1 $way
    pings "napi_tx=$way"
    guest "dd if=/dev/zero of=/file bs=1M count=64 2>/dev/null"
    local interrupts kicks packets bytes
    interrupts=$(count virtio0) kicks=$(told) packets=$(statistic tx_packets) bytes=$(statistic tx_bytes)
    start carry listening python3 tests/guest/carry.py receive 5001 "$out/back"
    local receiver=$pid
    guest "nc $host 5001 </file" || die "the guest cannot send: $reply"
    ended carry "$receiver"
    interrupts=$(($(count virtio0) - interrupts)) kicks=$(($(told) - kicks))
    packets=$(($(statistic tx_packets) - packets)) bytes=$(($(statistic tx_bytes) - bytes))
    printf '%-8s %9s %14s %11s %8s\n' $way "$packets" $((bytes / packets)) "$interrupts" "$kicks"
    [ "$bytes" -ge $((64 << 20)) ] || die "napi_tx=$way: $bytes bytes"
    halt
    finish
  done
}

[ $# -gt 0 ] || set -- network napi
for part; do
  case $part in
    network) for packed in ${PACKED:-off on}; do for pairs in ${PAIRS:-1 2}; do network $packed $pairs; done; done ;;
    napi) napi ;;
    *) die "no such part: $part" ;;
  esac
done
