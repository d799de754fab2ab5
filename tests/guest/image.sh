#!/usr/bin/env bash
# Makes the guest's kernel and initial file system: the newest cloud kernel of Debian, unpacked and not installed, with
# busybox and the modules of virtio-net. Both go to the given directory, which keeps the download.
set -eu
cache=$1
init=$(realpath "$(dirname "$0")/init")
mkdir -p "$cache"
cd "$cache"
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
if [ ! -e "$package.unpacked" ]; then
  rm -rf kernel ./*.unpacked
  apt-get download -qq "$package" 2>/dev/null
  dpkg -x "$package"_*.deb kernel
  rm "$package"_*.deb
  touch "$package.unpacked"
fi
cp kernel/boot/vmlinuz-* vmlinuz
root=$(mktemp -d) || exit 1
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
find kernel/lib/modules -name 'virtio*.ko' -o -name '*failover.ko' | xargs -I{} cp {} "$root/modules/"
cp "$init" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >initrd.gz
