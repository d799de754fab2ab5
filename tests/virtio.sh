#!/usr/bin/env bash
# Virtqueues against DPDK, both ways round: `virtio-user:` over its vhost, and `vhost-user:` under its virtio-user. testpmd's io
# forwarding loops numbered frames back, in every layout, and each is checked; half a million go through the command line. Peers
# that listen, peers that are killed. Needs no privilege but a temporary folder. Leaves nothing behind; every command has a
# time limit. VIRTIO_FRAMES=N loops N frames in each layout, NUMBERED=10m replaces the half million.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
frames=${VIRTIO_FRAMES:-100000} numbered=${NUMBERED:-500k}

built=$(tests/build.sh --example virtio_loop) || exit 1
wharf=${WHARF:-$built/wharf} loop=$built/examples/virtio_loop
out=$(mktemp -d) || exit 1
backend="" ours=""

cleanup() {
  trap - EXIT INT TERM
  for pid in $backend $ours; do kill -9 "$pid" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$out" "/run/dpdk/wharf$$"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
  echo "FAILED: $*"
  tail -n 5 "$out"/*.err "$out"/*.out 2>/dev/null
  exit 1
}

# ends PID SECONDS: waits for its end; false if it goes on.
ends() {
  for _ in $(seq $(($2 * 20))); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.05
  done
  return 1
}

# said FILE WHAT COMPLAINT: waits until the file has it.
said() {
  for _ in $(seq 1200); do
    grep -qsE "$2" "$1" && return
    sleep 0.05
  done
  die "$3"
}

there() { # SOCKET PID: waits until the socket exists
  for _ in $(seq 400); do
    [ -S "$1" ] && return
    kill -0 "$2" 2>/dev/null || break
    sleep 0.05
  done
  die "no program listens at ${1##*/}"
}

# testpmd VDEV [ARGUMENTS...]: starts a port of DPDK's, process $backend. By default it sends each frame back by the port it came
# by, and drops none for lack of room or because it came before the port was started.
testpmd() {
  local vdev=$1
  shift
  printf 'set fwd io retry\nset burst tx delay 1 retry 20000000\n' >"$out/commands"
  [ $# -gt 0 ] || set -- "--cmdline-file=$out/commands"
  : >"$out/testpmd.out" # another's lines are not its own
  dpdk-testpmd --no-huge -m 256 --no-pci "--file-prefix=wharf$$" --no-telemetry -l 0-1 --vdev "$vdev" -- \
    --total-num-mbufs=4096 --port-topology=loop --no-flush-rx --auto-start --stats-period 3600 "$@" \
    >"$out/testpmd.out" 2>&1 </dev/null &
  backend=$!
}

# end_testpmd [SIGNAL]: it prints its last statistics at INT, which takes it a second.
end_testpmd() {
  kill "-${1:-KILL}" "$backend" 2>/dev/null
  {
    ends "$backend" 10 || kill -9 "$backend"
    wait "$backend"
  } 2>/dev/null
  backend=""
  rm -f "$out/dpdk.sock"
}

# by_driver OPTIONS COMMAND...: runs our driver over DPDK's vhost; DEVICE in the command stands for the device to open.
by_driver() {
  local device="virtio-user:$out/dpdk.sock$1"
  shift
  testpmd "net_vhost0,iface=$out/dpdk.sock"
  there "$out/dpdk.sock" $backend
  timeout -k 5 300 "${@/DEVICE/$device}" >"$out/loop.out" 2>"$out/loop.err" || die "${device/$out\//}"
  end_testpmd
}

# by_device OPTIONS DRIVER COMMAND...: runs our device under DPDK's virtio-user, which has the options DRIVER.
by_device() {
  local device="vhost-user:$out/ours.sock$1" driver=$2
  shift 2
  timeout -k 5 300 "${@/DEVICE/$device}" >"$out/loop.out" 2>"$out/loop.err" &
  ours=$!
  there "$out/ours.sock" $ours
  testpmd "net_virtio_user0,path=$out/ours.sock,queue_size=256$driver"
  wait $ours || die "${device/$out\//} under net_virtio_user$driver"
  ours=""
  end_testpmd
}

# looped OPTIONS FRAMES [LONGEST [FRAME_BYTES]]
looped() {
  local options=$1
  shift
  by_driver "$options" "$loop" DEVICE "$@"
  sed "s|$out/||" "$out/loop.out"
}

# looped_back OPTIONS DRIVER FRAMES [LONGEST [FRAME_BYTES]]
looped_back() {
  local options=$1 driver=$2
  shift 2
  by_device "$options" "$driver" "$loop" DEVICE "$@"
  sed "s|$out/||; s|(?)|(net_virtio_user$driver)|" "$out/loop.out"
}

# checked OPTIONS: sends the numbered frames by the command line.
checked() {
  by_driver "$1" "$wharf" send --size 64 --count "$numbered" --echo --json --to DEVICE
  python3 - "$out/loop.out" "virtio-user$1" <<'P' || die "virtio-user$1: not all came back"
import json, sys
report = json.load(open(sys.argv[1]))
received = report["received"]
print(f'{sys.argv[2]}: {received["packets"]} of {report["packets"]} numbered frames came back, {received["errors"]} wrong, {report["mpps"]:.2f} Mpps')
sys.exit(0 if received["packets"] == report["packets"] > 0 and received["errors"] == report["pool"]["out"] == 0 else 1)
P
}

layouts() {
  looped ",in_order=off" "$frames"
  looped ",packed=on,in_order=off" "$frames"
  looped ",in_order=on" "$frames"
  looped ",packed=on,in_order=on" "$frames"
  looped ",mrg_rxbuf=off" "$((frames / 4))"
  looped ",packed=on,size=300" "$((frames / 4))"
  # Buffers of 640 bytes: frames leave as chains, and arrive in several.
  looped ",mrg_rxbuf=on,size=1024" "$((frames / 4))" 1514 640
  looped ",mrg_rxbuf=on,size=900,packed=on" "$((frames / 4))" 1514 640
  # The back end has the pool itself.
  looped ",copy=off" "$frames"
  looped ",copy=off,packed=on" "$frames"
  looped ",copy=off,mrg_rxbuf=on,size=1024" "$((frames / 4))" 1514 640

  for packed in 0 1; do
    for in_order in 0 1; do
      for mergeable in 0 1; do
        looped_back "" ",packed_vq=$packed,in_order=$in_order,mrg_rxbuf=$mergeable" "$frames"
      done
    done
  done
}

# Our device under DPDK's driver. The loop begins with the port, whose start discards earlier frames.
numbered() {
  checked ""
  checked ",packed=on"
  local count=${numbered/m/000000}
  looped_back "" "" "${count/k/000}" 64
  looped_back "" ",packed_vq=1" "${count/k/000}" 64
}

# A back end is killed: one line reports it, and all memory comes back.
killed() {
  for options in "" ",packed=on"; do
    testpmd "net_vhost0,iface=$out/dpdk.sock"
    there "$out/dpdk.sock" $backend
    rm -f "$out/loop.err"
    "$loop" "virtio-user:$out/dpdk.sock$options" 1000000000 >"$out/loop.out" 2>"$out/loop.err" &
    ours=$!
    # Not in the middle of the handshake.
    said "$out/loop.err" "the first frame is back" "virtio-user$options: nothing comes back"
    sleep 0.5
    kill -9 "$backend"
    ends $ours 10 || die "virtio-user$options hangs without its back end"
    wait $ours && die "virtio-user$options: a back end that is gone is no success"
    ours=""
    grep -q "the back end is gone" "$out/loop.err" || die "virtio-user$options does not say that its back end is gone"
    end_testpmd
  done
  echo "a back end that is killed under traffic: told, both layouts"

  timeout 20 "$loop" "virtio-user:$out/nobody.sock" 1 >"$out/loop.out" 2>"$out/loop.err" && die "a socket that is not there"
  grep -q "cannot connect to a back end" "$out/loop.err" || die "a socket that is not there is not told of"
  echo "a socket that no program listens at: told"
}

# Two queue pairs: flows use both, and each comes back in order. testpmd counts frames on both.
several() {
  local vdev device
  for packed in 0 1; do
    testpmd "net_vhost0,iface=$out/dpdk.sock,queues=2" "--cmdline-file=$out/commands" --rxq=2 --txq=2
    there "$out/dpdk.sock" $backend
    device=virtio-user:$out/dpdk.sock,queues=2$([ $packed = 0 ] || echo ,packed=on)
    timeout -k 5 300 "$loop" "$device" "$frames" 1514 2048 16 >"$out/loop.out" 2>"$out/loop.err" || die "${device/$out\//}"
    both "${device/$out\//}"

    timeout -k 5 300 "$loop" "vhost-user:$out/ours.sock,queues=2" "$frames" 1514 2048 16 >"$out/loop.out" 2>"$out/loop.err" &
    ours=$!
    there "$out/ours.sock" $ours
    vdev=net_virtio_user0,queues=2,cq=1,packed_vq=$packed
    testpmd "$vdev,path=$out/ours.sock,queue_size=256" "--cmdline-file=$out/commands" --rxq=2 --txq=2
    wait $ours || die "vhost-user,queues=2 under $vdev"
    ours=""
    both "vhost-user,queues=2 under $vdev"
  done
}

# both WHAT: ends testpmd; each of its two queues must have moved frames.
both() {
  end_testpmd INT
  local used
  used=$(grep -A1 "Forward Stats for RX Port= 0/Queue=" "$out/testpmd.out" | grep -cE "RX-packets: [1-9]")
  [ "$used" -eq 2 ] || die "$1: frames went by $used of 2 queue pairs"
  sed "s|$out/||; s|$| by two queue pairs|" "$out/loop.out"
}

# counting: starts a back end that takes frames and prints their number every second.
counting() {
  testpmd "net_vhost0,iface=$out/dpdk.sock,queues=2" --rxq=2 --txq=2 --forward-mode=rxonly --stats-period 1
  there "$out/dpdk.sock" $backend
}

# A back end is killed under traffic and replaced: wharf connects to the new one, and its account has the lost frames.
returned() {
  for options in "" ",packed=on,queues=2"; do
    counting
    "$wharf" send --size 64 --seconds 60 --to "virtio-user:$out/dpdk.sock,reconnect=on$options" --json >"$out/returned.out" 2>"$out/returned.err" &
    ours=$!
    for _ in 1 2; do
      said "$out/testpmd.out" "RX-packets: [1-9]" "virtio-user,reconnect=on$options: nothing arrives"
      kill -9 "$backend"
      end_testpmd
      counting
    done
    said "$out/testpmd.out" "RX-packets: [1-9]" "virtio-user,reconnect=on$options: nothing arrives"
    kill -INT $ours
    ends $ours 10 || die "virtio-user,reconnect=on$options hangs"
    wait $ours && die "virtio-user,reconnect=on$options: frames of a back end that is gone are no success"
    ours=""
    end_testpmd
    python3 - "$out/returned.out" "$out/testpmd.out" <<'P' || die "virtio-user,reconnect=on$options"
import json, re, sys
report = json.load(open(sys.argv[1]))
arrived = [int(count) for count in re.findall(r"RX-packets: (\d+)", open(sys.argv[2]).read())]
failed = report["drops"]["by_reason"]
ok = report["pool"]["out"] == 0 and failed.get("peer-gone", 0) > 0 and set(failed) <= {"peer-gone", "closed", "lost"} and sum(failed.values()) == report["failed"] <= 2048 and max(arrived) > 0
print(f'virtio-user,reconnect=on: {report["packets"]} frames, {report["failed"]} in rings of back ends that were killed, {max(arrived)} by the last one')
sys.exit(0 if ok else f"{report}")
P
  done
}

# Either side may listen.
listening() {
  for packed in off on; do
    local device="virtio-user:$out/ours.sock,server=on,packed=$packed"
    timeout -k 5 100 "$loop" "$device" 20000 >"$out/loop.out" 2>"$out/loop.err" &
    ours=$!
    there "$out/ours.sock" $ours
    testpmd "net_vhost0,iface=$out/ours.sock,client=1"
    wait $ours || die "${device/$out\//}"
    end_testpmd
    sed "s|$out/||" "$out/loop.out"
  done
  ours=""
}

# took NAME COUNT: wharf receives COUNT frames and prints nothing else.
took() {
  timeout -k 5 60 "$wharf" receive --from "vhost-user:$out/dpdk.sock,client=on" --count "$2" --json >"$out/$1.out" 2>"$out/$1.err" ||
    die "$1: not $2 frames"
  ! grep -vE "listening on|: waiting [^:]*$" "$out/$1.err" || die "$1: it says more"
}

# A device ends, or is killed under traffic, and comes back to a driver that goes on: it resumes by itself. The driver of
# packed rings clears them when its device comes back.
resumed() {
  for packed in 0 1; do
    testpmd "net_virtio_user0,path=$out/dpdk.sock,server=1,queue_size=256,packed_vq=$packed" --forward-mode=txonly
    there "$out/dpdk.sock" $backend
    took first 100000
    took ended 100000
    "$wharf" receive --from "vhost-user:$out/dpdk.sock,client=on" --json >"$out/killed.out" 2>"$out/killed.err" &
    ours=$!
    sleep 1
    kill -9 $ours
    wait $ours 2>/dev/null
    ours=""
    took killed 100000
    end_testpmd
    echo "vhost-user client=on, packed_vq=$packed: ended and killed under traffic, and back"
  done
}

# A driver is killed under traffic; the next one has longer frames.
replaced() {
  for packed in 0 1; do
    "$wharf" receive --from "vhost-user:$out/ours.sock" --json >"$out/receive.json" 2>"$out/receive.err" &
    ours=$!
    there "$out/ours.sock" $ours
    for bytes in 64 128; do
      testpmd "net_virtio_user0,path=$out/ours.sock,queue_size=256,packed_vq=$packed" --forward-mode=txonly --txpkts=$bytes --stats-period 1
      said "$out/testpmd.out" "TX-packets: [1-9][0-9]{3}" "a driver sends nothing"
      kill -9 "$backend"
      end_testpmd
    done
    kill -INT $ours
    ends $ours 10 || die "vhost-user hangs without a driver"
    wait $ours || die "vhost-user after two drivers"
    ours=""
    python3 - "$out/receive.json" <<'P' || die "frames of one driver only"
import json, sys
report = json.load(open(sys.argv[1]))
sys.exit(0 if 64 * report["packets"] < report["bytes"] < 128 * report["packets"] and report["pool"]["out"] == 0 else 1)
P
    echo "vhost-user, packed_vq=$packed: one driver killed under traffic, and another"
  done
}

[ $# -gt 0 ] || set -- layouts several numbered killed returned listening resumed replaced
for part; do
  case $part in
    layouts | several | numbered | killed | returned | listening | resumed | replaced) "$part" ;;
    *) die "no such part: $part" ;;
  esac
done
