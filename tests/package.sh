#!/usr/bin/env bash
# The ways to install `wharf`: `cargo install`, a static binary, an image of a container, and a Debian package in a clean system,
# out of which it goes again without a trace. Also the crates as they are published, and their licences. A part is skipped by
# name where a tool is missing (with CI=true that is a failure).
# Usage: tests/package.sh [PART...]. PROFILE names another profile than `quick`.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export PROFILE=${PROFILE:-quick}
target=${CARGO_TARGET_DIR:-target}
out=$(mktemp -d) || exit 1
skipped=()

cleanup() {
  trap - EXIT INT TERM
  rm -rf --one-file-system "$out"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
  echo "FAILED: $*"
  exit 1
}

# has PART PROGRAM:PACKAGE...: false, with a line, if the part lacks a program.
has() {
  local part=$1 packages="" need
  shift
  for need in "$@"; do
    case $need in
      root) [ "$(id -u)" -eq 0 ] || packages="$packages root" ;;
      musl) [ -d "$(rustc --print sysroot)/lib/rustlib/$(uname -m)-unknown-linux-musl" ] || packages="$packages $(uname -m)-unknown-linux-musl" ;;
      *) command -v "${need%:*}" >/dev/null || packages="$packages ${need#*:}" ;;
    esac
  done
  [ -z "$packages" ] && return
  echo "$part: skipped, not here:$packages"
  skipped+=("$part")
  return 1
}

# runs COMMAND...: a `wharf` that works: its demonstration, a capture, the devices, a word.
runs() {
  "$@" --version | grep -q '^wharf [0-9]' || die "$*: no version"
  "$@" demo --json >"$out/demo.json" || die "$*: demo"
  python3 -c 'import json, sys
demo = json.load(open(sys.argv[1]))
assert demo["priority_delay"]["off"]["p50_ns"] > demo["priority_delay"]["on"]["p50_ns"] > 0, demo' "$out/demo.json" || die "$*: demo"
  "$@" send --size 60 --count 100k --json | grep -q '"packets": *100000' || die "$*: send"
  "$@" devices | grep -q vhost-user || die "$*: devices"
  "$@" explain requeues | grep -q . || die "$*: explain"
}

suites() { # ./test lists all with tier and minutes, and a suite that lacks a program names its package
  local bin=$out/bin
  ./test --list >"$out/list" || die "./test --list"
  mkdir "$bin" || die "no folder for links"
  # Never with -f: in a folder of the system it would replace programs.
  find /usr/bin -maxdepth 1 ! -type d ! -name cpio -exec ln -s -t "$bin" {} +
  CI="" PATH=$bin ./test guest >"$out/skipped" || die "a skipped suite fails"
  grep -q '^guest  *skipped .*apt install.* cpio' "$out/skipped" || die "no package for cpio: $(cat "$out/skipped")"
  echo "suites: $(grep -cE '^[a-z-]+ +(commit|merge|night) +[0-9]+ ' "$out/list") listed"
}

crates() { # all that is published packs, with licence and README, and nothing that its tests alone need
  local hidden crate list
  mapfile -t hidden < <(cargo metadata --format-version 1 --no-deps --offline | python3 -c 'import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] == []: print("--exclude\n" + package["name"])
    else:
        lacks = [key for key in ("description", "license", "repository", "readme", "keywords", "categories", "rust_version") if not package[key]]
        assert not lacks, (package["name"], lacks)
        assert package["metadata"]["docs"]["rs"]["targets"], package["name"]')
  [ ${#hidden[@]} -eq 10 ] || die "not published: ${hidden[*]}"
  cargo package --quiet --offline --workspace "${hidden[@]}" --no-verify --allow-dirty --target-dir "$out/package" || die "cargo package"
  for crate in "$out"/package/package/*.crate; do
    list=$(tar -tf "$crate")
    for file in README.md LICENSE-MIT LICENSE-APACHE src/lib.rs; do grep -q "/$file$" <<<"$list" || die "${crate##*/} lacks $file"; done
    grep -E '/(tests|examples)/' <<<"$list" && die "${crate##*/} has tests, which need wharf-testkit"
  done
  echo "crates: $(ls "$out"/package/package/*.crate | wc -l) pack"
}

licences() { # of all dependencies; advisories where the database is here
  has licences cargo-deny:cargo-deny || return 0
  cargo deny check --hide-inclusion-graph licenses bans sources || die "cargo deny"
}

install() { # as the README and the guide say it, at another profile; the programs are found beside the command
  local path
  for path in crates/wharf-cli lab/wharf-lab-cli bench/wharf-bench; do
    cargo install --quiet --offline --locked --path $path --root "$out/root" --profile "$PROFILE" 2>"$out/install.err" || die "$(tail -1 "$out/install.err")"
  done
  runs "$out/root/bin/wharf"
  "$out/root/bin/wharf" lab list | grep -q '^bql' || die "wharf lab list"
  "$out/root/bin/wharf" plan --json | grep -q '"nic"' || die "wharf plan"
  "$out/root/bin/wharf" bench path --cores 1 --seconds 0.02 --json | grep -q '"rows"' || die "wharf bench path"
  echo "install: works"
}

static() { # a binary for any Linux, alone in an empty root
  has static musl || return 0
  PROFILE=quick packaging/static.sh "$out/static" || die "no static binary"
  ldd "$out/static/wharf" 2>&1 | grep -qE 'statically linked|not a dynamic' || die "ldd: $(ldd "$out/static/wharf" 2>&1)"
  runs "$out/static/wharf"
  if has "static, in an empty root" root chroot:coreutils; then
    mkdir -p "$out/empty" && cp "$out/static/wharf" "$out/empty/"
    runs chroot "$out/empty" /wharf
  fi
  echo "static: $(stat -c %s "$out/static/wharf") bytes, works in an empty root"
}

image() { # the last stage of the Containerfile, from what its first one runs (packaging/static.sh)
  has image musl root buildah:buildah || return 0
  [ -e "$out/static/wharf" ] || packaging/static.sh "$out/static" || die "no static binary"
  local tool=(buildah --root "$out/images" --runroot "$out/run" --storage-driver vfs) container mounted
  mkdir -p "$out/builder/out" && cp "$out"/static/* "$out/builder/out/"
  "${tool[@]}" build --quiet --isolation chroot --build-context "builder=$out/builder" -f packaging/Containerfile -t wharf . >"$out/build" 2>&1 ||
    die "buildah: $(tail -2 "$out/build")"
  container=$("${tool[@]}" from wharf) && mounted=$("${tool[@]}" mount "$container") || die "no container"
  [ "$(cd "$mounted" && find . -type f | wc -l)" -eq 3 ] || die "files: $(find "$mounted" -type f)"
  runs chroot "$mounted" /usr/bin/wharf
  "${tool[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}}' "$container" | grep -q /usr/bin/wharf || die "no entry point"
  "${tool[@]}" rm --all >/dev/null && "${tool[@]}" rmi --all --force >/dev/null
  echo "image: 3 files, works"
}

# files ROOT: names, modes and sums of a system's files, without what the package manager writes down for itself.
files() {
  (cd "$1" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt \) -prune \
    -o -printf '%M %u %p %l\n' | sort)
}

reload() { # systemd before 253 has a drop-in, and has read it; a later one has none
  local root=$out/root-of-systemd dropin version
  dropin=$root/etc/systemd/system/wharf-forward@.service.d/10-reload.conf
  mkdir -p "$root/run/systemd/system" "$out/fake" || die "no folders"
  # shellcheck disable=SC2016
  printf '#!/bin/sh\n[ "$1" = --version ] && exec echo "systemd $SYSTEMD (test)"\necho "$*" >>"$CALLS"\n' >"$out/fake/systemctl"
  chmod +x "$out/fake/systemctl"
  # configured VERSION SCRIPT ARGUMENT: runs it beside a systemd of that version, which is told to read its units again.
  configured() {
    rm -f "$out/calls"
    DPKG_ROOT=$root SYSTEMD=$1 CALLS=$out/calls PATH=$out/fake:$PATH "packaging/deb/$2" "$3" || die "$2 $3"
    grep -qx daemon-reload "$out/calls" || die "$2 $3: no daemon-reload"
  }
  configured 252 postinst configure
  grep -qx 'ExecReload=/bin/kill -HUP $MAINPID' "$dropin" || die "systemd 252 reloads nothing"
  configured 257 postinst configure
  [ ! -e "${dropin%/*}" ] || die "a drop-in for systemd 257"
  configured 252 postinst configure
  configured 252 postrm remove
  [ ! -e "${dropin%/*}" ] || die "a drop-in is left"
  echo "reload: a drop-in for systemd 252, none for 257"
}

debian() { # builds, passes lintian, installs with apt in a clean system, runs, and is purged
  has debian dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev strip:binutils || return 0
  local package system=$out/system mirror release
  [ -n "${WHARF:-}" ] || cargo build --quiet --locked --profile "$PROFILE" -p wharf-cli || die "no binary"
  package=$(WHARF=${WHARF:-$target/$PROFILE/wharf} packaging/deb.sh "$out") || die "no package"
  if has "debian, lintian" lintian; then lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$package" || die "lintian"; fi
  has "debian, a clean system" root mmdebstrap || return 0
  # The release and mirror of this machine.
  read -r mirror release < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Component: main' | awk '$2 !~ /-/ { print; exit }')
  mmdebstrap --quiet --variant=apt --include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --skip=cleanup/apt \
    "$release" "$system" "deb $mirror $release main" 2>"$out/mmdebstrap" || die "mmdebstrap: $(tail -2 "$out/mmdebstrap")"
  cp "$package" "$system/wharf.deb"
  files "$system" >"$out/before"
  local inside=(chroot "$system" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C)
  "${inside[@]}" apt-get install -y --no-install-recommends /wharf.deb >"$out/apt" 2>&1 || die "apt: $(tail -3 "$out/apt")"
  for file in usr/bin/wharf usr/share/man/man1/wharf-send.1.gz usr/share/bash-completion/completions/wharf usr/share/doc/wharf/copyright; do
    "${inside[@]}" dpkg -L wharf | grep -qx "/$file" && [ -s "$system/$file" ] || die "the package lacks $file"
  done
  "${inside[@]}" dpkg --verify wharf || die "files differ from their sums"
  runs "${inside[@]}" wharf
  "${inside[@]}" apt-get purge -y wharf >"$out/apt" 2>&1 || die "apt: $(tail -3 "$out/apt")"
  files "$system" >"$out/after"
  diff "$out/before" "$out/after" || die "the package leaves files"
  echo "debian: $(stat -c %s "$package") bytes; installed, works, purged without a trace"
}

twice() { # two folders, one binary
  local copy
  for copy in one two/deeper; do
    mkdir -p "$out/$copy" && git ls-files -z | xargs -0 cp --parents -t "$out/$copy" || die "no copy of the tree"
  done
  for copy in one two/deeper; do
    (cd "$out/$copy" && . packaging/flags.sh && CARGO_TARGET_DIR=$out/$copy/target cargo build --quiet --offline --locked \
      --profile "$PROFILE" -p wharf-cli --bin wharf) || die "no binary in $copy"
  done
  cmp "$out/one/target/$PROFILE/wharf" "$out/two/deeper/target/$PROFILE/wharf" || die "the folder is in the binary"
  echo "twice: two folders, one binary"
}

[ $# -gt 0 ] || set -- suites crates licences install static image reload debian twice
for part in "$@"; do
  case $part in
    suites | crates | licences | install | static | image | reload | debian | twice) "$part" ;;
    *) die "no such part: $part; there are: suites, crates, licences, install, static, image, reload, debian, twice" ;;
  esac
done
if [ ${#skipped[@]} -gt 0 ]; then
  echo "skipped: $(IFS=,; echo "${skipped[*]}")"
  [ "${CI:-}" != true ] || exit 1
fi
