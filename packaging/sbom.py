#!/usr/bin/env python3
"""Prints the software bill of materials of the `wharf` command, as CycloneDX 1.5: each crate in it, with version, licence and sum of
Cargo.lock. Usage: packaging/sbom.py [TARGET] >wharf.cdx.json"""
import json
import os
import subprocess
import sys
import tomllib

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
target = sys.argv[1] if len(sys.argv) > 1 else os.uname().machine + "-unknown-linux-musl"
command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target, "--manifest-path", "crates/wharf-cli/Cargo.toml"]
metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
with open("Cargo.lock", "rb") as lock:
    sums = {(package["name"], package["version"]): package.get("checksum") for package in tomllib.load(lock)["package"]}


def needed(node):
    """The crates that one is built of: neither what builds it nor what tests it."""
    return [dep["pkg"] for dep in nodes[node]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def component(package, kind="library"):
    name, version = package["name"], package["version"]
    reference = f"pkg:cargo/{name}@{version}"
    one = {"type": kind, "bom-ref": reference, "name": name, "version": version, "purl": reference}
    if package["license"]:
        one["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if sums.get((name, version)):
        one["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return one


root = next(id for id, package in packages.items() if package["name"] == "wharf-cli")
inside, found = [root], {root}
for node in inside:
    new = [dep for dep in needed(node) if dep not in found]
    inside += new
    found.update(new)
inside = sorted(found - {root}, key=lambda id: (packages[id]["name"], packages[id]["version"]))
reference = {id: component(packages[id])["bom-ref"] for id in [root, *inside]}
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": component(packages[root], "application")},
    "components": [component(packages[id]) for id in inside],
    "dependencies": [{"ref": reference[id], "dependsOn": sorted({reference[dep] for dep in needed(id)})} for id in [root, *inside]],
}, indent=1))
