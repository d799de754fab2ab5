#!/usr/bin/env bash
# `virtio-user:` against DPDK's vhost: numbered frames, looped back by testpmd, each checked, in every layout; a back end that
# is killed. Wants no privilege but to write in a temporary folder. Leaves nothing behind; nothing here may hang.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
frames=${VIRTIO_FRAMES:-200000}

cargo build --quiet --release -p wharf-devices --example virtio_loop || exit 1
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
loop=$target/release/examples/virtio_loop
out=$(mktemp -d)
backend=""

cleanup() {
  trap - EXIT INT TERM
  [ -n "$backend" ] && kill -9 "$backend" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$out"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
  echo "FAILED: $*"
  tail -n 5 "$out"/*.err "$out"/*.out 2>/dev/null
  exit 1
}

# testpmd: a port over a vhost socket, each frame sent back by the port that it came by. Its process is $backend.
testpmd() {
  dpdk-testpmd --no-huge -m 256 --no-pci "--file-prefix=wharf$$" --no-telemetry -l 0-1 --vdev "net_vhost0,iface=$out/dpdk.sock" -- \
    --total-num-mbufs=4096 --forward-mode=io --port-topology=loop --auto-start --stats-period 3600 \
    >"$out/testpmd.out" 2>&1 </dev/null &
  backend=$!
  for _ in $(seq 200); do
    [ -S "$out/dpdk.sock" ] && return
    kill -0 $backend 2>/dev/null || break
    sleep 0.05
  done
  die "testpmd does not start"
}

end_testpmd() {
  kill -INT "$backend" 2>/dev/null
  for _ in $(seq 100); do
    kill -0 "$backend" 2>/dev/null || break
    sleep 0.05
  done
  kill -9 "$backend" 2>/dev/null
  wait "$backend" 2>/dev/null
  backend=""
  rm -f "$out/dpdk.sock"
}

# looped OPTIONS FRAMES [LONGEST [FRAME_BYTES]]
looped() {
  local options=$1
  shift
  testpmd
  timeout -k 5 300 "$loop" "virtio-user:$out/dpdk.sock$options" "$@" >"$out/loop.out" 2>"$out/loop.err" || die "virtio-user$options"
  sed "s|$out/||" "$out/loop.out"
  end_testpmd
}

looped "" "$frames"
looped ",packed=on" "$frames"
looped ",in_order=on" "$frames"
looped ",packed=on,in_order=on" "$frames"
looped ",mrg_rxbuf=off" "$((frames / 4))"
looped ",packed=on,size=300" "$((frames / 4))"
# Buffers of 640 bytes: frames leave as chains, and arrive in several.
looped ",mrg_rxbuf=on,size=1024" "$((frames / 4))" 1514 640
looped ",mrg_rxbuf=on,size=900,packed=on" "$((frames / 4))" 1514 640

# A back end that is killed: told in one line, and all memory is home.
for options in "" ",packed=on"; do
  testpmd
  "$loop" "virtio-user:$out/dpdk.sock$options" 1000000000 >"$out/loop.out" 2>"$out/loop.err" &
  sender=$!
  sleep 1
  kill -9 "$backend"
  for _ in $(seq 200); do
    kill -0 $sender 2>/dev/null || break
    sleep 0.05
  done
  kill -0 $sender 2>/dev/null && kill -9 $sender && die "virtio-user$options hangs without its back end"
  wait $sender && die "virtio-user$options: a back end that is gone is no success"
  grep -q "the back end is gone" "$out/loop.err" || die "virtio-user$options does not say that its back end is gone"
  end_testpmd
done
echo "a back end that is killed under traffic: told, both layouts"

timeout 20 "$loop" "virtio-user:$out/nobody.sock" 1 >"$out/loop.out" 2>"$out/loop.err" && die "a socket that is not there"
grep -q "cannot connect to a back end" "$out/loop.err" || die "a socket that is not there is not told of"
echo "a socket that nobody listens at: told"
