#!/usr/bin/env bash
# `e1000:` and `igb:` on adapters that QEMU emulates, behind its IOMMU, in a guest with a current kernel
# (tests/nics/fetch.sh). Of each adapter there are four: 0 and 1 are the test's, and lead to eth2 in namespace l and
# eth3 in namespace r, which the kernel drives. Ends with 77, and its reason, where the packages are not to be had.
# Usage: tests/drivers.sh [e1000|e1000-82545em|igb]..., with e1000 for an 82540EM; PARTS picks among the parts, COUNT sets the
# frames of each size (100; 1000000 of all sizes take three hours on an idle host)
set -u -o pipefail
: "${PATIENCE:=$((120 + ${COUNT:-100} / 2000))}"
cd "$(dirname "$0")/.." || exit 1
needs=(-p wharf-lab-cli --bin wharf-lab)
. tests/rig.sh
. tests/guest-rig.sh
. tests/drivers/parts.sh
TOOLS="$(dirname "$wharf")/wharf-lab" guest_image

# adapters MODEL: prints QEMU's options for four of them, of which the first two are wired to the last two. A wire is a
# stream: one of datagrams, or a hub, now and then loses or overtakes a frame that waits for a receiver's buffers.
adapters() {
  local at
  for at in 0 1 2 3; do
    echo "-netdev stream,id=n$at,addr.type=fd,addr.str=$((20 + at))"
    # Each has a port, and an IOMMU group, of its own.
    echo "-device pcie-root-port,id=p$at,chassis=$at,slot=$at -device $1,bus=p$at,id=nic$at,netdev=n$at,mac=02:00:00:00:00:1$at,romfile="
  done
}

# boot MODEL: starts the guest, whose kernel does not measure its timer on a busy machine.
boot() {
  # shellcheck disable=SC2046
  launcher="python3 tests/drivers/wires.py" start_guest "hugepages=64 no_timer_check intel_iommu=on vfio=on adapter=${1%-*}" -machine q35,kernel-irqchip=split -device intel-iommu,intremap=on \
    -qmp "unix:$out/qmp,server=on,wait=off" $(adapters "$1")
  find_adapters
}

# find_adapters: finds the addresses of the adapters, $pci0 to $pci3, in a guest that has started.
find_adapters() {
  guest wire || die "$model: no interfaces: $reply"
  # A guest that did not run for a moment loses nothing for it.
  guest "in_space l ethtool -G eth2 rx 4096; in_space r ethtool -G eth3 rx 4096; carrier eth0" || die "$model: no long rings: $reply"
  for at in "- 0" "- 1" "l 2" "r 3"; do
    guest "in_space ${at% *} readlink -f /sys/class/net/eth${at#* }/device" || die "no eth${at#* }"
    reply=${reply%%[[:space:]]*}
    printf -v "pci${at#* }" %s "${reply##*/}"
  done
}

# The parts, in order; PARTS names some of them. An 82545EM has the driver of an 82540EM, and its few.
all="bound echoed crossed faced spread compared unusual forwarded link_down killed removed machine_reset given_back"
few="bound echoed unusual given_back"
trial() { # MODEL
  local part parts=$all
  model=$1 kind=${1%-*}
  [ "$model" = "$kind" ] || parts=$few
  boot "$model"
  for part in ${PARTS:-$parts}; do $part; done
  no_faults
  halt
  echo "$model: done after $SECONDS s"
}

[ $# -gt 0 ] || set -- e1000 e1000-82545em igb
for one; do trial "$one"; done
