#!/usr/bin/env bash
# Makes the guest's initial file system: `image.sh CACHE WHARF TO`. It holds busybox, the modules that CACHE has, the command
# WHARF, iproute2, ethtool and iperf3 with their libraries, and `init` and `guest.sh` of this folder. TOOLS names further
# commands, FILES further files, FUNCTIONS a file with further functions.
set -eu
cache=$1 wharf=$2 to=$3 here=$(realpath "$(dirname "$0")")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,root,tools}
cp "$(command -v busybox)" "$root/bin/busybox"
cp -r "$cache/modules" "$root/modules"
cp "$here/init" "$root/"
cat "$here/guest.sh" ${FUNCTIONS:-} >"$root/guest.sh"
cp "$wharf" "$root/tools/wharf"
for tool in ip tc ethtool iperf3 ${TOOLS:-}; do cp "$(command -v $tool)" "$root/tools/"; done
strip "$root"/tools/wharf* 2>/dev/null || true
# A library that another one loads by name is not in its list: FILES names those, and others that are copied as they are.
for file in ${FILES:-}; do mkdir -p "$root${file%/*}" && cp -L "$file" "$root$file"; done
ldd "$root"/tools/* $(printf '%s\n' ${FILES:-} | grep '\.so') | grep -o '/[^ :]*' | grep '\.so' | sort -u | while read -r library; do
  mkdir -p "$root${library%/*}" && cp -L "$library" "$root$library"
done
chmod +x "$root/init"
# Without cpio there is no file, and not an empty one.
set -o pipefail
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$to"
