"""Compares a diagnosis with the runs right after it: `agree.py FOLDER SPEC`. FOLDER has doctor.json with doctor.code, and send.json,
receive.json (empty if the device did not open) with what each said in send.err, receive.err. Prints a line."""
import json
import sys

out, spec = sys.argv[1:]
read = lambda name: open(f"{out}/{name}").read()
whole = json.loads(read("doctor.json"))
device, code = whole["devices"][0], int(read("doctor.code"))
words = []
assert device["device"] == spec and len(whole["devices"]) == 1
for one in device["directions"]:
    name = one["direction"]
    ran, said = read(f"{name}.json"), read(f"{name}.err").strip()
    opened = ran != ""
    if one["verdict"] == "untried":
        words.append(f"{name}: not tried")
        continue
    assert one["usable"] == (one["verdict"] == "works") == opened, f"{name}: {one} against {ran[:200]} {said}"
    if opened:
        mode = one["mode"]
        for key in "mode", "mode_reason":
            assert one[key] == json.loads(ran)[key], f"{name}: {key} {one[key]} against {json.loads(ran)[key]}"
        words.append(f"{name}: {mode or 'works'}")
    else:
        assert one["why"] in said, f"{name}: {one['why']!r} is not in {said!r}"
        words.append(f"{name}: {one['why'].removeprefix(spec + ': ')}")
    # A finding never says that what works cannot be.
    against = [f for f in device["findings"] if f["prevents"] in (name, "both")]
    assert not (opened and against), f"{name} works, and yet: {against}"
for finding in device["findings"]:
    assert finding["subject"] and finding["what"] and finding["weight"] in ("fact", "hint", "obstacle"), finding
assert device["usable"] == whole["usable"] == all(one["usable"] for one in device["directions"]), device
assert (code == 0) == whole["usable"], f"exit code {code}"
print(f"  {spec:<28} {'; '.join(words)}")
