#!/usr/bin/env bash
# Fetches QEMU 10 and a current kernel of Debian's backports into the given directory, unpacked and not installed: `qemu/`,
# `vmlinuz`, and `modules/` with the file `order`. Both come from the mirror of the machine's own apt sources, by a second set of
# apt directories. Prints the reason and ends with 77 where they are not to be had. What is there is kept.
set -u -o pipefail
cache=$1 here=$(realpath "$(dirname "$0")")
# The last release with a backport of QEMU that runs on Debian 12, and the one with current kernels.
qemu_suite=bookworm-backports kernel_suite=trixie-backports
# Adapters, with the modules that they need, come first; then what a test may want.
wanted="igb virtio_net e1000e vmxnet3 e1000 vfio_pci vfio_iommu_type1 tun veth ifb sch_tbf sch_ingress cls_u32 act_mirred 8021q bonding macvlan ib_uverbs rdma_rxe vrf bridge vxlan ip_gre ipip"

cannot() {
  echo "$*"
  exit 77
}

mkdir -p "$cache" && cd "$cache" || cannot "cannot write to $cache"
[ "$(cat complete 2>/dev/null)" = "$wanted" ] && exit 0
[ "$(uname -m)" = x86_64 ] || cannot "the guest is an x86_64 one, and this machine is not"
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$')
[ -n "$mirror" ] || mirror=$(sed -n 's/^URIs: *//p; s/^deb \([^[]*\)/\1/p' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
  tr ' ' '\n' | grep -m 1 '/debian/*$')
[ -n "$mirror" ] || cannot "no mirror of Debian in the apt sources"
mkdir -p apt/lists/partial apt/archives/partial
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in $qemu_suite $kernel_suite; do echo "deb [signed-by=$keys] $mirror $suite main"; done >apt/sources.list
# A mirror that was frozen has lists that expired.
options=(-qq -o Dir::Etc::SourceList="$PWD/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/apt/lists"
  -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/apt" -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root)
timeout 300 apt-get "${options[@]}" update >apt/log 2>&1 || cannot "the mirror has no backports: $(tail -n 1 apt/log)"

image=$(apt-cache "${options[@]}" depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$image" ] || cannot "$kernel_suite has no kernel"
version=${image#linux-image-}
rm -rf debs qemu kernel modules
mkdir debs
(cd debs && timeout 900 apt-get "${options[@]}" download "linux-binary-$version" "linux-modules-$version" \
  {qemu-system-x86,qemu-system-common,qemu-system-data}/$qemu_suite >../apt/log 2>&1) || cannot "no packages: $(tail -n 1 apt/log)"
for package in debs/qemu*.deb; do dpkg-deb -x "$package" qemu; done
for package in debs/linux-*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --one-top-level=kernel --wildcards '*/vmlinuz' '*/drivers/net/*' '*/drivers/dca/*' \
    '*/i2c-algo-bit.ko*' '*/drivers/vfio/*' '*/virt/lib/*' '*/net/core/*' '*/net/sched/*' '*/net/8021q/*' '*/net/802/*' '*/net/llc/*' '*/net/bridge/*' '*/net/tls/*' \
    '*/net/ipv4/*' '*/net/ipv6/*' '*/infiniband/core/*' '*/infiniband/sw/rxe/*' 2>/dev/null
done
cp kernel/usr/lib/modules/*/vmlinuz vmlinuz 2>/dev/null || cannot "the kernel's package has another shape"
python3 "$here/modules.py" kernel modules $wanted || cannot "the kernel has not the modules"
rm -rf debs kernel apt qemu/usr/share/doc
echo "$wanted" >complete
