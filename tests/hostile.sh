#!/usr/bin/env bash
# What an adversary tried to kill or wedge the command with, by programs that share nothing with its own tests: vhost-user drivers and
# back ends that break every rule, threads and system calls that cannot be had, files that others could read. Needs python3, setpriv,
# prlimit; without gcc or FUSE a part is skipped. Usage: tests/hostile.sh [COUNT [SEED]]: COUNT peers of each side by chance.
set -eu
cd "$(dirname "$0")/.."
needs=(-p wharf-lab-cli --bin wharf-lab -p wharf-bench --bin wharf-bench)
. tests/rig.sh
count=${1:-25} seed=${2:-$$}
echo "seed $seed"

# A shared machine, and a command without optimisation, take longer.
export WHARF_NEXT_SECONDS=${WHARF_NEXT_SECONDS:-1}
within 900 python3 tests/hostile/drivers.py "$wharf" "$out" "$seed" "$count" || die "drivers, seed $seed"
within 900 python3 tests/hostile/back_ends.py "$wharf" "$out" "$seed" "$count" || die "back ends, seed $seed"

# F4: threads that cannot be had. Each run ends, in one line if not well.
for threads in 1 2 3 5; do
  for run in "bench path --seconds 0.02" "lab run bql" "lab run fairness --world host --threads 2 --seconds 0.05" "lab run pages --world host --seconds 0.05"; do
    code=0
    # shellcheck disable=SC2086
    within 240 setpriv --reuid=$((1000000000 + $$)) --regid=65534 --clear-groups prlimit --nproc=$threads "$wharf" $run >/dev/null 2>"$out/f4.err" || code=$?
    case $code in 0) ;; 1) [ "$(wc -l <"$out/f4.err")" -le 1 ] ;; *) false ;; esac || die "F4: $threads threads, $run: exit code $code"
  done
done
echo "F4: 16 runs with 1 to 5 threads end by themselves"

# F5: membarrier is refused once the process is registered, as by a filter that is put in place later.
if command -v gcc >/dev/null; then
  cat >"$out/refuse.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f) {
  static long (*real)(long, ...);
  if (!real) real = dlsym(RTLD_NEXT, "syscall");
  if (number == SYS_membarrier && a == 8) { errno = EPERM; return -1; }
  return real(number, a, b, c, d, e, f);
}
C
  gcc -shared -fPIC -o "$out/refuse.so" "$out/refuse.c"
  LD_PRELOAD=$out/refuse.so within 60 "$wharf" bench path --cores 2 --seconds 0.1 --json >"$out/f5.json" 2>"$out/f5.err" || die "F5"
  LD_PRELOAD=$out/refuse.so within 60 "$wharf" lab run fairness --world host --threads 2 --seconds 0.05 >/dev/null 2>"$out/f5.err" || die "F5: lab"
  echo "F5: membarrier that is refused later is done without"
else
  echo "F5 skipped: no gcc"
fi

# F6: a peer that never comes, packets that never come: a signal ends the wait, and each has an end of its own.
for run in "forward virtio-user:$out/w.s,server=on null --seconds 0.2" "send --size 60 --seconds 0.2 --to virtio-user:$out/w.s,server=on" \
  "bench device --from udp:127.0.0.1:0 --seconds 0.2"; do
  code=0 began=$SECONDS
  # shellcheck disable=SC2086
  timeout -k 5 -s INT 1 "$wharf" $run >/dev/null 2>"$out/f6.err" || code=$?
  [ $code = 124 ] && [ $((SECONDS - began)) -le 4 ] || die "F6: $run: exit code $code after $((SECONDS - began)) s"
done
echo "F6: a signal ends each wait for a peer"

# F8: what may hold traffic is its owner's alone, links are not followed, privileges are given up, the socket has a mode.
umask 022
ln -s "$out/target" "$out/link"
code=0
"$wharf" send --count 1 --size 60 --to "pcap:$out/link" >/dev/null 2>"$out/f8.err" || code=$?
[ $code != 0 ] && [ ! -e "$out/target" ] || die "F8: a link is followed"
"$wharf" send --count 1 --size 60 --batch on --to "pcap:$out/f8.pcap" --trace "$out/f8-trace.pcap" >/dev/null 2>"$out/f8.err" || die "F8: capture"
[ "$(stat -c %a "$out/f8.pcap" "$out/f8-trace.pcap" | sort -u)" = 600 ] || die "F8: others may read captures"
"$wharf" forward "vhost-user:$out/f8.sock,mode=660" null --user nobody >/dev/null 2>"$out/f8.err" &
pid=$!
for _ in $(seq 100); do grep -q forwarding "$out/f8.err" && break; sleep 0.05; done
[ "$(stat -c %a "$out/f8.sock")" = 660 ] || die "F8: the mode of the socket"
for task in /proc/$pid/task/*/status; do
  [ "$(awk '/^CapEff|^NoNewPrivs|^Seccomp:/ {print $2}' "$task" | tr '\n' ' ')" = "0000000000000000 1 2 " ] || die "F8: $task keeps privileges"
done
kill -INT "$pid"
wait "$pid" || die "F8: forward"
echo "F8: captures 0600, no link followed, the socket's mode, no capabilities, NoNewPrivs, a filter in each thread"
echo "ok: hostile"
