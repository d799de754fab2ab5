#!/usr/bin/env bash
# The topologies of `./test net` in a guest with a current kernel, which has what this machine's may lack: VLAN, QinQ, bonds, VRFs,
# GRE, IPIP. Kernel and QEMU are those of tests/nics.sh (tests/nics/fetch.sh), emulated. Ends with 77, and its reason, where they are
# not to be had. Usage: tests/net-guest.sh [TOPOLOGY]...; QUESTIONS is the number of destinations of each.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest/console.sh
. tests/nics/boot.sh
cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}/nics
tests/nics/fetch.sh "$cache" || { code=$?; [ $code -eq 77 ] && exit 77; die "no kernel for the guest"; }
tests=$(cargo test --quiet -p wharf-net --test kernel --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
cp "$tests" "$out/wharf-net-tests" && strip "$out/wharf-net-tests"
TOOLS=$out/wharf-net-tests tests/nics/image.sh "$cache" "$wharf" "$out/initrd.gz" || die "no initial file system"
patience=${PATIENCE:-600}
# The modules of VXLAN come with those of RDMA.
start_guest adapter=rdma -machine q35
failed=0
[ $# -gt 0 ] || set -- $("$tests" --ignored --list 2>/dev/null | sed -n 's/^topologies::\(.*\): test$/\1/p')
for topology in "$@"; do
  if ! guest "IP=/tools/ip QUESTIONS=${QUESTIONS:-1000} wharf-net-tests --ignored --exact --nocapture topologies::$topology 2>&1"; then
    failed=1
    echo "$reply" | head -n 40
  fi
  # A topology that is skipped on a kernel that should have it is a failure.
  grep -q "skipped" <<<"$reply" && { echo "$topology: the guest's kernel has no such interfaces" && failed=1; }
  echo "$reply" | grep -o 'wharf-net-.*differ$'
done
halt
[ $failed -eq 0 ] || die "topologies differ"
echo "net-guest: done after $SECONDS s"
