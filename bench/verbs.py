"""Prints what bench/verbs.sh has measured of one size of frames: `verbs.py SIZE`, with lines `MODE SENT PROCESS_S GUEST_S PER_DOORBELL RECEIVED`
on standard input."""
import statistics
import sys

runs = {"on": [], ",batch=off": []}
for line in sys.stdin:
    mode, sent, process, guest, per_doorbell, received = line.split()
    runs[mode].append((int(sent) / float(process), int(sent) / float(guest), float(per_doorbell), int(received) / int(sent)))
on, off = (list(zip(*runs[mode])) for mode in runs)
ratios = [[a / b for a, b in zip(on[at], off[at])] for at in (0, 1)]
print(f"{sys.argv[1]} bytes: batch=on over batch=off, packets per processor second:"
      f" of the sending process {statistics.median(ratios[0]):.2f} ({min(ratios[0]):.2f} to {max(ratios[0]):.2f}),"
      f" of the whole guest {statistics.median(ratios[1]):.2f} ({min(ratios[1]):.2f} to {max(ratios[1]):.2f});"
      # With batch=off the count is of calls, in each of which many frames are posted, one by one.
      f" packets a call {statistics.median(on[2]):.1f} and {statistics.median(off[2]):.1f},"
      f" arrived {100 * statistics.median(on[3]):.0f} % and {100 * statistics.median(off[3]):.0f} %")
