"""Copies modules of an unpacked kernel, decompressed: `modules.py FROM TO NAME...`. The file `order` in TO names them, each behind
those that it needs. A name that is not there is left out, unless it is the first."""
import gzip
import lzma
import pathlib
import re
import sys

source, target, wanted = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
files = {file.name.split(".")[0].replace("-", "_"): file for file in source.rglob("*.ko*")}
order = []


def contents(file):
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(file.suffix, open)
    with opened(file, "rb") as module:
        return module.read()


def copy(name):
    if name in order or name not in files:
        return
    module = contents(files[name])
    for needed in re.search(rb"\0depends=([^\0]*)", module).group(1).decode().split(","):
        copy(needed.replace("-", "_"))
    (target / f"{name}.ko").write_bytes(module)
    order.append(name)


target.mkdir()
for name in wanted:
    copy(name)
(target / "order").write_text("\n".join(order) + "\n")
sys.exit(0 if wanted[0] in order else f"no module {wanted[0]}")
