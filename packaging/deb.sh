#!/usr/bin/env bash
# Builds the Debian package of the `wharf` command, and prints its path.
# Usage: packaging/deb.sh [FOLDER]. The package goes to FOLDER, else to target/debian. WHARF names a binary to pack in place of
# a release build. MAINTAINER ("Name <address>") is the contact that the package names: set it for a package that others install.
set -eu
cd "$(dirname "$0")/.."
for tool in dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev strip:binutils gzip:gzip; do
  command -v "${tool%:*}" >/dev/null || { echo "${tool%:*} is missing: apt install ${tool#*:}" >&2; exit 1; }
done
target=${CARGO_TARGET_DIR:-target}
out=${1:-$target/debian}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
date=$(date --utc --rfc-email --date="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
maintainer=${MAINTAINER:-Wharf maintainers <maintainers@wharf.invalid>}
. packaging/flags.sh
[ -n "${WHARF:-}" ] || cargo build --quiet --locked --release -p wharf-cli
wharf=${WHARF:-$target/release/wharf}
architecture=$(dpkg --print-architecture)

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
root=$work/root
share=$root/usr/share
doc=$share/doc/wharf
umask 022
mkdir -p "$root/DEBIAN" "$doc" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
  "$share/fish/vendor_completions.d" "$work/debian"

install -D -m 755 "$wharf" "$root/usr/bin/wharf"
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/wharf"
"$wharf" man "$share/man/man1"
gzip -9n "$share"/man/man1/*.1
"$wharf" completions bash >"$share/bash-completion/completions/wharf"
"$wharf" completions zsh >"$share/zsh/vendor-completions/_wharf"
"$wharf" completions fish >"$share/fish/vendor_completions.d/wharf.fish"

install -m 644 packaging/deb/copyright "$doc/copyright"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
printf 'wharf (%s-1) unstable; urgency=medium\n\n  * Release %s: see changelog.gz.\n\n -- %s  %s\n' \
  "$version" "$version" "$maintainer" "$date" | gzip -9nc >"$doc/changelog.Debian.gz"
install -D -m 644 packaging/deb/overrides "$share/lintian/overrides/wharf"

# A configuration to begin with, the board and the alerts, and the guide, which `grep -r` searches.
for example in packaging/forward.toml docs/grafana.json docs/alerts.yml; do
  install -D -m 644 "$example" "$doc/examples/${example##*/}"
done
find docs/guide -type f -exec install -D -m 644 {} "$doc/"{} \;
mv "$doc/docs/guide" "$doc/guide" && rmdir "$doc/docs"
# A manager of virtual machines finds a back end of vhost-user by its description.
install -D -m 755 packaging/vhost-user/wharf-vhost-user-net "$root/usr/lib/wharf/wharf-vhost-user-net"
install -D -m 644 packaging/vhost-user/50-wharf-net.json "$share/qemu/vhost-user/50-wharf-net.json"
install -m 755 packaging/deb/postinst packaging/deb/postrm "$root/DEBIAN/"

# Units are disabled until an administrator enables one.
for unit in packaging/systemd/*.service packaging/systemd/*.socket packaging/systemd/*.target; do
  [ ! -e "$unit" ] || install -D -m 644 "$unit" "$root/usr/lib/systemd/system/${unit##*/}"
done

# The least version of each library, from the symbols that the binary takes.
printf 'Source: wharf\n\nPackage: wharf\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/wharf 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
sed -e "s/@VERSION@/$version-1/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" \
  -e "s/@SIZE@/$(du -sk --apparent-size "$root" | cut -f1)/" -e "s/@DEPENDS@/$depends/" -e '/^Depends: $/d' \
  packaging/deb/control >"$root/DEBIAN/control"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

mkdir -p "$out"
package=$out/wharf_$version-1_$architecture.deb
find "$root" -exec touch --no-dereference --date="$date" {} +
SOURCE_DATE_EPOCH=$(date --date="$date" +%s) dpkg-deb --build --root-owner-group -Zxz "$root" "$package" >/dev/null
echo "$package"
