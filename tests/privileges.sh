#!/usr/bin/env bash
# `--user` and `--seccomp`: each kind of device goes on as a user without capabilities, behind a filter of system calls, in
# every thread. Needs root. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
to=packet:va

space $a && space $b && space $c
pair $a va $b vb
pair $b vc $c vd
ip -n $b link set lo up && ip -n $a link set lo up

# confined PID: every thread of the process is nobody's, without capabilities, and filtered.
confined() {
  python3 - "$1" <<'P' || die "a thread has privileges: $(grep -H '^Uid\|^Gid\|^Groups\|^Cap\|^NoNew\|^Seccomp' /proc/"$1"/task/*/status)"
import glob, pwd, sys
user = pwd.getpwnam("nobody")
threads = [dict(line.rstrip("\n").split(":", 1) for line in open(path)) for path in glob.glob(f"/proc/{sys.argv[1]}/task/*/status")]
want = {"Uid": [str(user.pw_uid)] * 4, "Gid": [str(user.pw_gid)] * 4, "Groups": [], "NoNewPrivs": ["1"], "Seccomp": ["2"],
        **{f"Cap{which}": ["0" * 16] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")}}
bad = [(thread["Name"], key) for thread in threads for key in want if thread[key].split() != want[key]]
sys.exit(f"{bad}" if bad or len(threads) < 2 else 0)
P
}

# passes KIND A B: forwards 4000 frames from A, an interface in b, as nobody, until SIGTERM.
passes() {
  start "$1" forwarding "$wharf" forward "$2" "$3" --user nobody --json
  local forwarder=$pid
  in_a "$wharf" send --to packet:va --size 200 --count 4000 --rate 20kpps --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  started+=($sender)
  confined $forwarder
  ended sender $sender
  [ $code -eq 0 ] || die "$1: the sender's exit code is $code"
  confined $forwarder
  stop "$1" $forwarder TERM
  [ $code -eq 0 ] || die "$1: exit code $code"
  holds "$1" "${1}['directions'][0]['sent'] + ${1}['directions'][0]['drops']['total'] >= 4000 and ${1}['directions'][0]['sent'] > 3000"
}

between_interfaces() {
  for kind in packet xdp; do
    start got "listening on" ip netns exec $c "$wharf" receive --from $kind:vd --json --user nobody
    local receiver=$pid
    passes $kind $kind:vb $kind:vc
    confined $receiver
    stop got $receiver INT
    holds got 'got["packets"] > 3000 and got["unstamped"] == 0 and got["pool"]["out"] == 0'
  done
  passes tap packet:vb tap:t0
  receive datagrams udp:127.0.0.1:9000 --user nobody
  local receiver=$pid
  passes udp packet:vb udp:127.0.0.1:9000
  confined $receiver
  stop datagrams $receiver INT
  holds datagrams 'datagrams["packets"] > 3000'
  echo "packet, xdp, tap, udp: no thread has privileges, and frames go on"
}

captures() { # in a folder that is closed to the user: what is open is written
  receive own packet:vb --pcap "$out/own.pcap" --trace "$out/trace.pcap" --count "$(frames $sample)" --user nobody
  send replay --pcap $sample --speed 50kpps --trace "$out/sent.pcap" --user nobody
  [ $code -eq 0 ] || die "replay"
  ended own $pid
  [ $code -eq 0 ] || die "own: exit code $code"
  for file in own trace sent; do same $sample "$out/$file.pcap" $file; done
  in_a "$wharf" send --pcap $sample --to "pcap:$out/copy.pcap" --user nobody >"$out/copy.json" 2>"$out/copy.err" || die "copy"
  same $sample "$out/copy.pcap" copy
  echo "captures that were open before are whole"
}

# driver NAME: DPDK's virtio-user sends to vhost-user:$out/vm.sock until it is killed; its process is $driver.
driver() {
  "${there[@]}" dpdk-testpmd --no-huge -m 256 --no-pci "--file-prefix=wharf$$$1" --no-telemetry -l 0-1 \
    --vdev "net_virtio_user0,path=$out/vm.sock,queue_size=256" -- --total-num-mbufs=4096 --auto-start --stats-period 3600 \
    --forward-mode=txonly >"$out/testpmd.out" 2>&1 </dev/null &
  driver=$!
  started+=("$driver")
  for _ in $(seq 200); do
    [ "$(ip -n $b -j -s link show vm0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])')" -gt "$2" ] && return
    sleep 0.1
  done
  die "no frames of the $1 driver's"
}

a_guest() { # a driver, another one after it, and a socket that the user may not remove
  start guest forwarding "$wharf" forward "vhost-user:$out/vm.sock" tap:vm0 --user nobody --json
  local forwarder=$pid
  driver first 1000
  confined $forwarder
  kill -9 "$driver" && wait "$driver" 2>/dev/null
  driver second "$(($(ip -n $b -j -s link show vm0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])') + 1000))"
  confined $forwarder
  stop guest $forwarder TERM
  kill -9 "$driver" && wait "$driver" 2>/dev/null
  [ $code -eq 0 ] || die "guest: exit code $code"
  holds guest 'guest["directions"][0]["sent"] > 2000'
  [ -S "$out/vm.sock" ] || die "the user removed a socket of root's"
  start guest forwarding "$wharf" forward "vhost-user:$out/vm.sock" tap:vm0 --user nobody --seconds 0.1 --json
  ended guest $pid
  [ $code -eq 0 ] || die "the socket that stayed was not replaced"
  echo "vhost-user: two drivers in turn are served without privileges; a socket that stays is replaced"
}

what_cannot_be() {
  refused unprivileged "only root can change the user" setpriv --reuid=65534 "$wharf" send --size 60 --count 9 --to null --user nobody
  refused lacking "CAP_SETUID" setpriv --bounding-set=-setuid "$wharf" send --size 60 --count 9 --to null --user nobody
  refused kept "CAP_SETUID" setpriv --securebits=+no_setuid_fixup "$wharf" send --size 60 --count 9 --to null --user nobody
  in_a setpriv --bounding-set=-setpcap "$wharf" send --size 60 --count 9 --to null --user nobody >"$out/all.json" 2>&1 || die "without CAP_SETPCAP"
  echo "a user that cannot be changed: one line, exit code 1"
}

between_interfaces
captures
a_guest
what_cannot_be
