#!/usr/bin/env bash
# `verbs:` over soft-RoCE (rdma_rxe), on the ends of a veth pair between two namespaces of a guest with a current kernel: Linux has network
# namespaces for soft-RoCE since 2026. Kernel and QEMU are those of tests/nics.sh (tests/nics/fetch.sh), emulated. Ends with 77, and its
# reason, where they are not to be had. PARTS picks among the parts.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
. tests/nics/parts.sh
. tests/verbs/parts.sh
. tests/verbs/boot.sh
boot
for part in ${PARTS:-examinations each_way one_by_one bytes in_error removed lost_completions killed}; do $part; done
halt
echo "verbs: done after $SECONDS s"
