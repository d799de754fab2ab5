#!/usr/bin/env bash
# `wharf doctor` on each kind of interface and device: its verdict, its mode and its error are those of `wharf send` and `wharf receive`
# right after it. Needs root. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
checked=0

# agrees SPEC [COMMAND...]: the verdicts on SPEC in namespace a, behind COMMAND, are those of sending one frame and of receiving for
# a moment.
agrees() {
  local spec=$1
  shift
  # A second time if need be: a link's change may show up to a second later, and in the middle.
  for _ in 1 2; do
    in_a "$@" "$wharf" -q doctor "$spec" --json >"$out/doctor.json" 2>"$out/doctor.err"
    echo $? >"$out/doctor.code"
    in_a "$@" "$wharf" -q send --to "$spec" --size 60 --count 1 --json >"$out/send.json" 2>"$out/send.err"
    in_a "$@" "$wharf" -q receive --from "$spec" --seconds 0.03 --json >"$out/receive.json" 2>"$out/receive.err"
    python3 tests/doctor/agree.py "$out" "$spec" 2>"$out/agree.err" && checked=$((checked + 1)) && return
    sleep 1.2
  done
  die "$spec $*: $(tail -n 1 "$out/agree.err")"
}

# has SPEC 'PYTHON CONDITION': a finding f on SPEC holds, without opening anything.
has() {
  in_a "$wharf" -q doctor "$1" --no-probe --json >"$out/read.json" 2>"$out/read.err"
  holds read 'any('"$2"' for f in read["devices"][0]["findings"])'
}

# made COMMAND...: true if the kernel can make that interface.
made() { ip -n $a link add "$@" 2>/dev/null; }

space $a && space $b
ip -n $a link set lo up
pair $a va $b vb

on_veth() {
  agrees xdp:va
  agrees packet:va
  agrees xdp:va,mode=zerocopy
  agrees xdp:va,mode=copy
  agrees xdp:va,queue=7
  agrees xdp:va,csum=offload
  has xdp:va 'f["subject"] == "driver" and f["data"]["name"] == "veth"'
  has xdp:va 'f["subject"] == "queues" and f["data"]["rx"] == f["data"]["tx"] == 1'
  # Since Linux 6.8.
  has xdp:va 'f["subject"] == "metadata" and f["data"]["rx_hash"] and not f["data"]["zero_copy"] and not f["data"]["tx_checksum"]'
  has xdp:va 'f["subject"] == "kernel" and f["data"]["release"]'
  ip -n $b link set vb down
  for kind in xdp packet; do agrees $kind:va; done
  ip -n $a link set va down
  for kind in xdp packet; do agrees $kind:va; done
  has xdp:va 'f["prevents"] == "both" and f["mend"] == "ip link set va up"'
  ip -n $a link set va up && ip -n $b link set vb up
}

on_virtual_interfaces() {
  for kind in xdp packet; do agrees $kind:lo; agrees $kind:none; done
  made br0 type bridge && ip -n $a link set br0 up && for kind in xdp packet; do agrees $kind:br0; done
  if made port type veth peer name portb; then # a port of a bridge, and the bridge with a carrier
    ip -n $a link set port master br0 up && ip -n $a link set portb up
    for kind in xdp packet; do agrees $kind:port; agrees $kind:br0; done
  fi
  made mv0 link va type macvlan && ip -n $a link set mv0 up && for kind in xdp packet; do agrees $kind:mv0; done
  made va.5 link va type vlan id 5 && ip -n $a link set va.5 up && for kind in xdp packet; do agrees $kind:va.5; done
  made ifb0 type ifb && ip -n $a link set ifb0 up && for kind in xdp packet; do agrees $kind:ifb0; done
  made vx0 type vxlan id 7 dstport 4789 local 127.0.0.1 && ip -n $a link set vx0 up && for kind in xdp packet; do agrees $kind:vx0; done
  made du0 type dummy && ip -n $a link set du0 up && for kind in xdp packet; do agrees $kind:du0; done
  made nk0 type netkit peer name nk1 && ip -n $a link set nk0 up && for kind in xdp packet; do agrees $kind:nk0; done
  if made bo0 type bond; then
    made p0 type veth peer name p1 && ip -n $a link set p1 up && ip -n $a link set p0 master bo0 && ip -n $a link set bo0 up
    for kind in xdp packet; do agrees $kind:bo0; done
  fi
}

on_taps() {
  agrees tap:new0
  ip -n $a tuntap add t0 mode tap || die "no tap"
  for kind in xdp packet tap; do agrees $kind:t0; done
  ip -n $a link set t0 up
  for kind in xdp packet tap; do agrees $kind:t0; done
  agrees tap:va
  ip -n $a tuntap add tun0 mode tun && ip -n $a link set tun0 up
  for kind in xdp packet; do agrees $kind:tun0; done
}

# What others have: the queue, the program, the port.
beside_others() {
  start other "listening on" ip netns exec $a "$wharf" receive --from xdp:va --json
  agrees xdp:va
  has xdp:va 'f["subject"] == "program" and f["data"]["name"] == "wharf" and f["data"]["link"] > 0'
  stop other $pid INT
  # Two processes with different queues share the program.
  ip -n $a link add vq numrxqueues 2 numtxqueues 2 type veth peer name vqb numrxqueues 2 numtxqueues 2 && ip -n $a link set vq up && ip -n $a link set vqb up
  start other "listening on" ip netns exec $a "$wharf" receive --from xdp:vq,queue=0 --json
  agrees xdp:vq,queue=1
  agrees xdp:vq
  stop other $pid INT
  agrees xdp:vq
  ip -n $a link del vq
  # A process without rights, by a helper that has them.
  chmod 711 "$out"
  start other serving ip netns exec $a "$wharf" helper va --socket "$out/helper.sock" --mode 666
  agrees "xdp:va,helper=$out/helper.sock" sh -c 'ulimit -l unlimited; exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all "$0" "$@"'
  holds doctor 'doctor["usable"]'
  stop other $pid TERM
  start other "listening on" ip netns exec $a "$wharf" receive --from udp:127.0.0.1:9009 --json
  agrees udp:127.0.0.1:9009
  stop other $pid INT
  agrees xdp:va
}

without_rights() {
  agrees xdp:va setpriv --bounding-set=-net_raw
  agrees xdp:va setpriv --bounding-set=-sys_admin,-bpf
  agrees packet:va setpriv --bounding-set=-net_raw
  agrees tap:new1 setpriv --bounding-set=-net_admin
  agrees xdp:va setpriv --bounding-set=-ipc_lock sh -c 'ulimit -l 64 && exec "$0" "$@"'
  agrees xdp:lo unshare -Urn sh -c 'ip link set lo up && exec "$0" "$@"'
}

on_other_kinds() {
  cp $sample "$out/copy.pcap"
  for spec in null udp:127.0.0.1:9010 udp:nowhere.invalid:9 udp:192.0.2.1:9 "pcap:$out/copy.pcap" pcap:/none/such.pcap \
    "vhost-user:$out/vm.sock" vhost-user:/none/vm.sock "virtio-user:$out/none.sock"; do
    agrees "$spec"
  done
}

# An interface's name stands for each device that can use it. A probe leaves nothing behind, and reading alone opens nothing.
by_name() {
  in_a "$wharf" -q doctor va --json >"$out/name.json" 2>"$out/name.err" || die "doctor va"
  holds name '[device["kind"] for device in name["devices"]] == ["packet", "xdp"] and name["usable"]'
  in_a "$wharf" -q doctor xdp:va --for both --json >"$out/both.json" || die "--for both"
  holds both '[(one["direction"], one["mode"]) for one in both["devices"][0]["directions"]] == [("both", "native, copy")]'
  ip -n $a link show va | grep -q xdp && die "a program is left"
  in_a "$wharf" -q doctor xdp:va --no-probe --json >"$out/read.json" || die "--no-probe"
  holds read 'all(one["verdict"] == "untried" and one["usable"] for one in read["devices"][0]["directions"])'
  in_a "$wharf" doctor xdp:va >"$out/table" 2>"$out/said" || die "no table"
  grep -q "do not reach this host" "$out/said" || die "a probe does not say what it does to others"
  grep -q "receive: *works, mode native, copy" "$out/table" || die "the table does not say how it works"
}

on_veth
on_virtual_interfaces
on_taps
beside_others
without_rights
on_other_kinds
by_name
echo "$checked devices: doctor's verdict, mode and error are those of sending and receiving"
