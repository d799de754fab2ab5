#!/usr/bin/env bash
# A new user in a clean system: a Debian 12, and a Debian 13, with a compiler and the programs that the guide names, and nothing else. It
# gets Rust from its own site and crates from their registry, builds and installs as README.md says, and runs every command of README.md and
# the guide there.
# Needs root, and a mirror that has both; the clean systems are kept in WHARF_GUEST_CACHE (120 MB each). RELEASES names others to try.
# Leaves nothing else behind.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
keys=/usr/share/keyrings/debian-archive-keyring.gpg
out=$(mktemp -d) || exit 1
# What is mounted there goes with the mount namespace of the command that runs in it.
trap 'rm -rf --one-file-system "$out"' EXIT
trap 'exit 130' INT TERM

# clean RELEASE: makes its clean system, with a clone, in $system.
clean() {
  local release=$1 cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}/clean-$1.tar mirror
  system=$out/$release
  if [ ! -s "$cache" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$')
    mkdir -p "${cache%/*}" && mmdebstrap --quiet --variant=minbase --include=ca-certificates,curl,gcc,git,libc6-dev,iproute2,jq,procps,python3,tcpdump \
      "$release" "$cache.part" "deb [signed-by=$keys] $mirror $release main" --format=tar 2>"$out/mmdebstrap.err" || {
      echo "no Debian $release: $(tail -n 1 "$out/mmdebstrap.err")"
      exit 77
    }
    mv "$cache.part" "$cache"
  fi
  mkdir "$system" && tar -x -C "$system" -f "$cache" --exclude './dev/*' || exit 1
  git clone --quiet --no-hardlinks . "$system/root/wharf" || exit 1
  # It reaches the net as this machine does.
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do cp --remove-destination -L $file "$system$file"; done
  cp "$out/user" "$system/root/user"
}

cat >"$out/user" <<'U'
set -eu
export HOME=/root PATH=/root/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin
# What `sh.rustup.rs` fetches.
curl -sSf -o /root/rustup-init "https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init" || exit 77
chmod +x /root/rustup-init && /root/rustup-init -y -q --profile minimal >/root/rustup.out 2>/root/rustup.err || { tail -n 3 /root/rustup.err; exit 77; }
cd /root/wharf
# The blocks of README.md that begin with cargo, as they stand.
python3 - >/root/build <<'P'
import re
for block in re.findall(r"^```sh\n(.*?)^```", open("README.md").read(), re.M | re.S):
    if block.startswith("cargo"):
        print(block)
P
grep -c '^cargo' /root/build | grep -qx 2
started=$(date +%s)
bash -eu /root/build >/root/build.out 2>/root/build.err || { tail -n 20 /root/build.err; exit 1; }
grep -q 'byte limit on' /root/build.out
[ "$(command -v wharf)" = /root/.cargo/bin/wharf ] && wharf --version | head -n 1
echo "built, shown and installed in $(($(date +%s) - started)) s"
tests/first-run.sh
U
cat >"$out/boot" <<'B'
set -e
mount --make-rprivate /
mount --bind "$1" "$1" && cd "$1"
mount -t proc none proc && mount -t sysfs none sys && mount --rbind /dev dev && mount -t tmpfs none tmp && mount -t tmpfs none run
# No chroot: the kernel gives no user namespaces in one.
pivot_root . mnt && umount -l /mnt && cd /
exec env -i TERM=xterm ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} bash /root/user
B
for release in ${RELEASES:-bookworm trixie}; do
  clean "$release"
  unshare --mount --pid --fork --kill-child bash "$out/boot" "$system" || exit
  echo "Debian $release: built, installed and run as the README says"
  rm -rf --one-file-system "$system"
done
