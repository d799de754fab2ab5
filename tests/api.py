#!/usr/bin/env python3
"""Lists the public API of the `wharf` crate and compares it with crates/wharf/api.txt.

Usage: tests/api.py [--write] [--built].  The list holds each public item with its methods, variants and fields, as rustdoc documents
them. A change of the API is a change of that file, so a review sees it. `--write` replaces the file. `--built`
takes the documentation of the whole workspace that Cargo has made already. The example programs use
`wharf` alone, and have at most 100 lines each. No page shows the name of a crate behind `wharf`; what an
example uses is public; the types of a public method are exported, and no name is hidden. At most 20 names are at the root, and 110 in all.
"""
import html, os, pathlib, re, subprocess, sys

TOP = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TOP / "crates/wharf/api.txt"
DOCS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "doc/wharf"
BEHIND = re.compile(r"\bwharf_(?:core|devices|mem|packet|sys)\b(?! as )")
EXAMPLE = re.compile(r'<pre class="rust rust-example-rendered">(.*?)</pre>', re.S)
SIGNATURE = re.compile(r'<h4 class="code-header">(.*?)</h4>|<span id="structfield[^>]*>(.*?)</span>', re.S)
USED = re.compile(r"\buse wharf::([^;]+);")
ITEM = re.compile(r'href="((?:[a-z_]+/)*)(struct|enum|trait|fn|type|constant|macro|static)\.(\w+)\.html"')
MEMBER = re.compile(r'id="(method|tymethod|variant|structfield|associatedconstant|associatedtype)\.(\w+)"')
PROGRAMS = [TOP / "crates/wharf/examples" / name for name in ("retransmit/main.rs", "echo.rs", "balance.rs", "capture.rs")]
PROGRAMS += sorted((TOP / "examples/own-device/src").glob("*.rs"))
# Methods of traits that every type has are no promise of ours.
FOREIGN = re.compile(r'<h2 id="(?:trait-implementations|synthetic-implementations|blanket-implementations|implementors|foreign-impls)"')
KINDS = {"constant": "const", "method": "fn", "tymethod": "fn", "structfield": "field", "associatedconstant": "const", "associatedtype": "type"}
# What only tools of the workspace need is of `wharf-core` and `wharf-devices`, by name.
HIDDEN = re.compile(r"#\[doc\(hidden\)\]\s*pub (?:use|mod) ([^;{]+)")


def members(page):
    own = FOREIGN.split(page.read_text())[0]
    return sorted({(KINDS.get(kind, kind), name) for kind, name in MEMBER.findall(own)})


def listing(docs):
    lines = []
    for folder, kind, name in sorted(set(ITEM.findall((docs / "all.html").read_text())), key=lambda item: (item[0], item[2])):
        path = "wharf::" + folder.replace("/", "::") + name
        lines.append(f"{KINDS.get(kind, kind)} {path}")
        page = docs / f"{folder}{kind}.{name}.html"
        if kind in ("struct", "enum", "trait"):
            lines += [f"    {member} {path.rsplit('::', 1)[1]}::{of}" for member, of in members(page)]
    return lines


def misuses():
    """What is wrong with the example programs: they are a stranger's, who has `wharf` alone, and short."""
    for file in PROGRAMS:
        text = file.read_text()
        for name in sorted(set(re.findall(r"\bwharf_(?:core|devices|mem)\b", text))):
            yield f"{file.relative_to(TOP)} uses {name}"
        if len(text.splitlines()) > 100:
            yield f"{file.relative_to(TOP)} has more than 100 lines"


def names(tree):
    """Yields the paths of a tree of imports."""
    head, _, inner = tree.partition("{")
    yield from ([head + name.strip() for name in inner.rstrip("}").split(",") if name.strip()] if inner else [head])


def hidden():
    """Names that the facade exports and its pages do not show."""
    for file in sorted((TOP / "crates/wharf/src").rglob("*.rs")):
        for tree in HIDDEN.findall(file.read_text()):
            yield f"{file.relative_to(TOP)} hides {' '.join(tree.split())}"


def internal(docs, now):
    """What a page shows that its reader cannot name: a crate behind `wharf`, an import of an example that is not public.
    `net` is a crate with pages of its own, whose examples say `wharf::net`."""
    public = {line.split()[1] for line in now if not line.startswith(" ")}
    for page in sorted(docs.rglob("*.html")):
        text, name = page.read_text(), page.relative_to(docs)
        for line in html.unescape(re.sub(r"<[^>]*>", "", text)).splitlines():
            if BEHIND.search(line):
                yield f"{name} shows {BEHIND.search(line)[0]}: {line.strip()[:80]}"
        for example in EXAMPLE.findall(text):
            for path in (path for tree in USED.findall(html.unescape(re.sub(r"<[^>]*>", "", example))) for path in names(tree)):
                if not path.startswith("net") and f"wharf::{path}" not in public:
                    yield f"{name} uses wharf::{path}, which is not public"
    for file in sorted((TOP / "crates/wharf-packet/src").rglob("*.rs")):
        for line in re.findall(r"^\s*//[/!] (?!# )(.*\bwharf_packet::.*)$", file.read_text(), re.M):
            yield f"{file.relative_to(TOP)} shows wharf_packet: {line}"


def too_many(now):
    """What is over the bounds of the public API, which is read as a whole."""
    names = [line.split()[1] for line in now if not line.startswith(" ")]
    for what, count, most in (("at the root", sum(name.count("::") == 1 for name in names), 20), ("in all", len(names), 110)):
        if count > most:
            yield f"{count} public names {what}, at most {most}"


def unnamed(docs):
    """Types in signatures of methods that `wharf` does not export, so that nobody can name them."""
    files = [*(TOP / "crates/wharf/src").rglob("*.rs"), TOP / "crates/wharf-packet/src/gso.rs", TOP / "crates/wharf-packet/src/lib.rs"]
    source = re.sub(r"//[^\n]*", "", "".join(path.read_text() for path in files))
    known = set(re.findall(r"\b[A-Z]\w+", " ".join(re.findall(r"\bpub use ([^;]+);", source))))
    known |= set(re.findall(r"\bpub (?:struct|enum|trait|type) (\w+)", source))
    for page in sorted(docs.rglob("*.html")):
        for signature in SIGNATURE.findall(FOREIGN.split(page.read_text())[0]):
            plain = re.sub(r"<[^>]*>", "", re.sub(r"<a .*?</a>", "", "".join(signature), flags=re.S))
            for word in set(re.findall(r"\b[A-Z][A-Za-z]*[a-z]\w*", plain)) - known - {"Self", "Item"}:
                yield f"{page.relative_to(docs)}: {word}, which wharf does not export: {' '.join(plain.split())[:80]}"


def main():
    if "--built" not in sys.argv[1:]:
        subprocess.run(["cargo", "doc", "--quiet", "-p", "wharf", "--no-deps", "--features", "vhost"], cwd=TOP, check=True)
    now = listing(DOCS)
    if "--write" in sys.argv[1:]:
        GOLDEN.write_text("\n".join(now) + "\n")
        return 0
    wrong = list(misuses()) + list(hidden()) + list(internal(DOCS, now)) + list(unnamed(DOCS)) + list(too_many(now))
    print("\n".join(wrong), end="\n" if wrong else "")
    then = GOLDEN.read_text().splitlines()
    gone, new = [line for line in then if line not in now], [line for line in now if line not in then]
    for sign, lines in (("-", gone), ("+", new)):
        for line in lines:
            print(f"{sign} {line.strip()}")
    total = sum(not line.startswith(" ") for line in now)
    print(f"{total} public names of wharf, {len(now) - total} members of them; {len(gone)} gone, {len(new)} new")
    if gone or new:
        print("the public API has changed: if that is meant, run tests/api.py --write and commit crates/wharf/api.txt")
    return 1 if gone or new or wrong else 0


sys.exit(main())
