#!/usr/bin/env bash
# `xdp:` on adapters that QEMU emulates (igb, virtio_net, e1000e, vmxnet3), in a guest with a current kernel: Debian's own kernel
# and QEMU are too old for zero-copy, so both come from its backports (tests/nics/fetch.sh), and stay in WHARF_GUEST_CACHE. Of each
# adapter there are four: eth0 and eth1 are the test's, and lead to eth2 in namespace l and eth3 in namespace r. All without
# hardware acceleration. Ends with 77, and its reason, where the packages are not to be had.
# Usage: tests/nics.sh [ADAPTER]..., with virtio_net-plain for virtio_net without an IOMMU; PARTS picks among the parts
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
. tests/nics/parts.sh
. tests/doctor/in_guest.sh
guest_image

# adapters NAME: prints QEMU's options for four of them, of which the first two are wired to the last two. A wire is a pair of datagram
# sockets: a hub of QEMU lets frames overtake those that wait for a receiver's buffers.
adapters() {
  local at device
  # Two nodes, of a processor and half of the memory each. Adapters are on the bus of the second.
  [ "$1" != igb ] || echo "-smp 2,sockets=2 -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M
    -numa node,memdev=m0,cpus=0 -numa node,memdev=m1,cpus=1 -device pxb-pcie,id=near,bus=pcie.0,bus_nr=64,numa_node=1"
  for at in 0 1 2 3; do
    echo "-netdev dgram,id=n$at,local.type=unix,local.path=$out/wire$at,remote.type=unix,remote.path=$out/wire$(((at + 2) % 4))"
    case $1 in
      # An igb has functions of its own, for which it wants a port: here one of the second node.
      igb) echo "-device pcie-root-port,bus=near,id=p$at,chassis=$at,slot=$at" && device=igb,bus=p$at ;;
      virtio_net) device=virtio-net-pci,disable-legacy=on,iommu_platform=on ;;
      virtio_net-plain) device=virtio-net-pci,disable-legacy=on ;;
      *) device=$1 ;;
    esac
    echo "-device $device,netdev=n$at,mac=02:00:00:00:00:1$at,romfile="
  done
}

# boot ADAPTER: starts the guest.
boot() {
  rm -f "$out"/wire*
  # shellcheck disable=SC2046
  start_guest "hugepages=160 adapter=${1%-plain}" -machine q35 $(adapters "$1")
  guest wire || die "$1: no interfaces: $reply"
}

# The parts of an adapter that has zero-copy, and those of the others.
in_place="modes examinations upper frames_each_way all_queues same_bytes offloaded near_memory host_tcp steered forwarding busy_polled put_off disturbances killed"
by_copy="modes examinations frames_each_way same_bytes offloaded forwarding killed"
trial() { # ADAPTER
  local part parts began
  adapter=$1
  boot "$adapter"
  case $adapter in igb | virtio_net) parts=$in_place ;; *) parts=$by_copy ;; esac
  for part in ${PARTS:-$parts}; do
    began=$SECONDS
    $part
    took+=" $part $((SECONDS - began))"
  done
  halt
  echo "$adapter: done after $SECONDS s:$took"
  took=""
}

took=""
[ $# -gt 0 ] || set -- igb virtio_net virtio_net-plain e1000e vmxnet3
for adapter; do trial "$adapter"; done
