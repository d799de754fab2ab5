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

# passes KIND A B: forwards 4000 frames from A, an interface in b, as nobody, until SIGTERM. A busy machine may drop some.
passes() {
  start "$1" forwarding "$wharf" forward "$2" "$3" --user nobody --json
  local forwarder=$pid
  in_a "$wharf" send --to packet:va --size 200 --count 4000 --rate 20kpps --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  confined $forwarder
  ended sender $sender
  [ $code -eq 0 ] || die "$1: the sender's exit code is $code"
  confined $forwarder
  stop "$1" $forwarder TERM
  [ $code -eq 0 ] || die "$1: exit code $code"
  holds "$1" "${1}['directions'][0]['sent'] > 1000"
}

between_interfaces() {
  for kind in packet xdp; do
    start got "listening on" ip netns exec $c "$wharf" receive --from $kind:vd --json --user nobody
    local receiver=$pid
    passes $kind $kind:vb $kind:vc
    confined $receiver
    stop got $receiver INT
    holds got 'got["packets"] > 1000 and got["unstamped"] == 0 and got["pool"]["out"] == 0'
  done
  passes tap packet:vb tap:t0
  receive datagrams udp:127.0.0.1:9000 --user nobody
  local receiver=$pid
  passes udp packet:vb udp:127.0.0.1:9000
  confined $receiver
  stop datagrams $receiver INT
  holds datagrams 'datagrams["packets"] > 1000'
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
  soon counts $b vm0 rx_packets "$2" || die "no frames of the $1 driver's"
}

a_guest() { # a driver, another one after it, and a socket that the user may not remove
  start guest forwarding "$wharf" forward "vhost-user:$out/vm.sock" tap:vm0 --user nobody --json
  local forwarder=$pid
  driver first 1000
  confined $forwarder
  kill -9 "$driver" && wait "$driver" 2>/dev/null
  driver second $(($(link_statistic $b vm0 rx_packets) + 1000))
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

# Runs a command as user 65534, without any capability.
user=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)

# arrive NAME FROM [COMMAND...]: the receiver, run by the command, gets 1500 frames: all find room in what it posts.
arrive() {
  local name=$1 from=$2
  shift 2
  start "$name" "listening on" "$@" "$wharf" receive --from "$from" --frames 2048 --count 1500 --seconds 20 --json
  local receiver=$pid
  send sent --size 200 --count 1500 --rate 4kpps
  ended "$name" "$receiver"
  [ $code -eq 0 ] || die "$name: exit code $code"
  holds "$name" "${name}['packets'] == 1500 and ${name}['unstamped'] == 0 and ${name}['pool']['out'] == 0"
}

helped() { # a helper's users need no privilege to send and to receive by xdp
  chmod 711 "$out"
  ulimit -l unlimited 2>/dev/null
  local to=xdp:va
  start helper serving "$wharf" helper vb --socket "$out/helper.sock" --mode 666
  local helper=$pid
  arrive mine "xdp:vb,helper=$out/helper.sock" "${user[@]}"
  holds mine 'mine["mode"] == "program of others, copy"'
  start got "listening on" "${here[@]}" "$wharf" receive --from packet:va --count 4000 --seconds 20 --json
  local receiver=$pid
  start mine "" "${user[@]}" "$wharf" send --to "xdp:vb,helper=$out/helper.sock" --size 200 --frames 1024 --count 4000 --rate 50kpps --json
  ended mine $pid
  ended got $receiver
  holds mine got 'mine["packets"] == 4000 == got["packets"] and mine["pool"]["out"] == 0'
  within 20 python3 tests/helper.py ask "$out/helper.sock" vb || die "the plug-in's users are not served"
  within 20 python3 tests/helper.py hostile "$out/helper.sock" vb "$helper" || die "hostile users hold up the others"
  arrive mine "xdp:vb,helper=$out/helper.sock" "${user[@]}"
  # A receiver learns that its helper has ended, and goes on with the next one if it may.
  local from="xdp:vb,helper=$out/helper.sock" waits
  start told "listening on" "${user[@]}" "$wharf" receive --from "$from" --frames 2048 --seconds 20 --on-gone fail --json
  waits=$pid
  kill -9 $helper && wait $helper 2>/dev/null
  ended told "$waits"
  [ $code -eq 1 ] || die "a receiver without its helper: exit code $code"
  one_line told "helper.*has ended"
  [ -S "$out/helper.sock" ] || die "no socket is left behind"
  start helper serving "$wharf" helper vb --socket "$out/helper.sock" --mode 666
  helper=$pid
  start waits "listening on" "${user[@]}" "$wharf" receive --from "$from" --frames 2048 --seconds 100 --on-gone reopen --json
  waits=$pid
  kill -9 $helper && wait $helper 2>/dev/null
  soon grep -q "has ended" "$out/waits.err" || die "a receiver does not miss its helper"
  start helper serving "$wharf" helper vb --socket "$out/helper.sock" --mode 666
  helper=$pid
  soon grep -q "open again after" "$out/waits.err" || die "a receiver does not go on"
  send sent --size 200 --count 500 --rate 4kpps
  stop waits "$waits" INT
  holds waits 'waits["packets"] >= 500 and waits["unstamped"] == 0 and waits["pool"]["out"] == 0'
  arrive mine "$from" "${user[@]}"
  stop helper $helper TERM
  [ $code -eq 0 ] || die "helper: exit code $code"
  ip -n $b -j link show vb | grep -q '"xdp"' && die "the helper leaves its program"
  start mine "" "${user[@]}" "$wharf" receive --from "xdp:vb,helper=$out/helper.sock" --seconds 5 --json
  ended mine $pid
  [ $code -eq 1 ] || die "without a helper: exit code $code"
  one_line mine "nothing listens there"
  echo "wharf admin helper: a user without capabilities sends and receives by xdp; hostile users hold up no other; a plug-in's user is served"
}

greedy() { # the kernel bounds descriptors on their way for a helper without CAP_SYS_RESOURCE: no user takes them from the others
  start helper serving setpriv --inh-caps=-all --bounding-set=-all,+net_raw,+net_admin,+bpf \
    sh -c 'ulimit -n 100 && exec "$0" helper vb --socket "$1" --mode 666' "$wharf" "$out/greedy.sock"
  local helper=$pid
  start greedy asked python3 tests/helper.py greedy "$out/greedy.sock" vb
  local user=$pid
  within 20 python3 tests/helper.py ask "$out/greedy.sock" vb || die "a user that reads nothing keeps descriptors from the others"
  kill -9 "$user" && wait "$user" 2>/dev/null
  stop helper $helper TERM
  echo "a user that reads none of hundreds of descriptors: others are served, by a helper of three capabilities"
}

others_program() { # a program and a map of sockets that another process has made
  local to=xdp:va
  mkdir "$out/bpf" && mount -t bpf bpf "$out/bpf" || die "no BPF file system"
  trap 'umount "$out/bpf"; cleanup' EXIT
  python3 tests/helper.py pin "$out/bpf/map" "$out/bpf/program" || die "nothing is pinned"
  start mine "" "$wharf" receive --from "xdp:vb,map=$out/bpf/map" --seconds 5 --json
  ended mine $pid
  one_line mine "program=PATH"
  echo precious >"$out/vb"
  start mine "" "$wharf" helper vb --socket "$out/helper.sock" --pin "$out"
  ended mine $pid
  [ $code -eq 1 ] && [ "$(cat "$out/vb")" = precious ] || die "--pin removes a file of others"
  arrive pinned "xdp:vb,map=$out/bpf/map,program=$out/bpf/program"
  holds pinned 'pinned["mode"] == "native, copy"'
  start helper serving "$wharf" helper vb --socket "$out/helper.sock" --pin "$out/bpf"
  local helper=$pid
  arrive beside "xdp:vb,map=$out/bpf/vb"
  arrive inherited "xdp:vb,map=fd:N" python3 tests/helper.py run "$out/bpf/vb"
  start plugin serving python3 tests/helper.py serve "$out/plugin.sock" vb "$out/bpf/vb"
  arrive beside "xdp:vb,helper=$out/plugin.sock"
  for wrong in "map=$out/bpf/program" "map=$out/bpf/nothing" "map=$sample" map=fd:99 "program=$out/bpf/program" "map=$out/bpf/vb,program=$out/bpf/vb"; do
    start mine "" "$wharf" receive --from "xdp:vb,$wrong" --seconds 5 --json
    ended mine $pid
    [ $code -ne 0 ] || die "$wrong: exit code $code"
    one_line mine "map\|program"
  done
  stop helper $helper TERM
  [ -e "$out/bpf/vb" ] && die "the helper leaves its map"
  if ip netns exec $b nsenter --mount=/proc/$$/ns/mnt ip link set vb xdp pinned "$out/bpf/program" 2>"$out/ip.txt"; then
    start mine "" "$wharf" receive --from xdp:vb --seconds 5 --json
    ended mine $pid
    one_line mine "map=PATH"
    arrive beside "xdp:vb,map=$out/bpf/map"
    ip -n $b link show vb | grep -q xdp || die "the program of others is gone"
    ip -n $b link set vb xdp off
  else
    die "ip attaches no program: $(cat "$out/ip.txt")"
  fi
  echo "a program of another process: by its pinned map, by a descriptor, by the plug-in; attached for the time of a run"
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
helped
greedy
others_program
what_cannot_be
