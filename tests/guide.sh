#!/usr/bin/env bash
# The documentation: each command and listing of README.md and the guide, and the links of all pages.
set -eu
cd "$(dirname "$0")/.."
wharf=$(tests/build.sh -p wharf-lab-cli --bin wharf-lab -p wharf-bench --bin wharf-bench)/wharf
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
# Each command and listing of README.md and the guide; and a page with five faults, each of which must be told.
tests/guide.py "$wharf"
cat >"$out/faults.md" <<'M'
```sh
wharf send --size 60 --count 3 --to null | grep -c packets
```

```text
77 packets
```

```sh
wharf send --to nowhere
```

```sh,no-run
wharf demo
```

```rust
fn main() {}
```

```toml
a = = 1
```
M
tests/guide.py "$wharf" "$out/faults.md" >"$out/faults" && { echo "no fault was found"; exit 1; }
[ "$(grep -c "^[^ ]*faults.md:" "$out/faults")" = 5 ] || { cat "$out/faults"; exit 1; }
# The links, in the book too if mdbook is here (cargo install mdbook --no-default-features --locked).
if command -v mdbook >/dev/null; then
  mdbook build docs
  tests/links.py docs/book
else
  tests/links.py
  echo "skipped: the book (not here: mdbook)"
fi
