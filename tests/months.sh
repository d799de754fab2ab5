#!/usr/bin/env bash
# What months of a forwarder are made of, in a minute: MONTHS_SECONDS=1800 takes half an hour. Traffic passes, links go down and come
# back, the configuration is read again, Prometheus scrapes each second, and a hundred clients only connect. Memory and descriptors
# are recorded each ten seconds, and may grow in the first minute only, or third. QUIET=1, for a
# machine without other work, demands every scrape: else one in twenty may take longer than its second. Wants root. Leaves
# nothing behind.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
seconds=${MONTHS_SECONDS:-60}
first=$((seconds < 180 ? seconds / 3 : 60)) metrics=127.0.0.1:9100 prometheus=${PROMETHEUS:-prometheus}
space $a && space $b && space $c
ip -n "$b" link set lo up || die "no loopback"
pair $a a0 $b b0
pair $b b1 $c c1

configured() { printf 'a = "packet:b0"\nb = "packet:b1"\nrate = "%s"\nmetrics = "%s"\n' "$1" $metrics >"$out/months.toml"; } # RATE
configured 20mbit
start forward "wharf: forwarding" "$wharf" forward --config "$out/months.toml" --json
forward=$pid
printf 'global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: wharf, static_configs: [{targets: ["%s"]}]}]\n' \
  $metrics >"$out/prometheus.yml"
start prometheus "ready to receive" "$prometheus" --config.file="$out/prometheus.yml" --storage.tsdb.path="$out/data" \
  --web.listen-address=127.0.0.1:9090
ip netns exec $a "$wharf" send --size 1000 --rate 5kpps --seconds 48h --to packet:a0 --json >"$out/send.json" 2>"$out/send.err" &
start clients "" python3 -c 'import socket, time
clients = []
while True:
    clients.append(socket.create_connection(("127.0.0.1", 9100)))
    if len(clients) > 100: clients.pop(0).close()
    time.sleep(0.05)'

# grows NAME NOW: dies if it is an eighth and 16 more than the most at first.
declare -A most=()
grows() {
  if [ $((SECONDS - began)) -le "$first" ] || [ -z "${most[$1]:-}" ]; then
    [ "${most[$1]:-0}" -ge "$2" ] || most[$1]=$2
  elif [ "$2" -gt $((most[$1] * 9 / 8 + 16)) ]; then
    die "$1: $2, and at most ${most[$1]} at first"
  fi
}

began=$SECONDS round=0
while [ $((SECONDS - began)) -lt "$seconds" ]; do
  round=$((round + 1))
  resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$forward/status") files=$(find "/proc/$forward/fd" -mindepth 1 | wc -l)
  threads=$(find "/proc/$forward/task" -mindepth 1 -maxdepth 1 | wc -l)
  echo "after $((SECONDS - began)) s: VmRSS $resident kB, $files descriptors, $threads threads"
  grows VmRSS "$resident" && grows descriptors "$files" && grows threads "$threads"
  for flap in 1 2 3; do
    ip -n $b link set b1 down && sleep 0.5 && ip -n $b link set b1 up || die "no flap $flap"
    configured $(((round + flap) % 2 ? 20 : 5))mbit
    kill -HUP "$forward" || die "the forwarder is gone"
    sleep 2.5
  done
  sleep 1
done
flows $c c1

# over QUERY: what Prometheus makes of a series over the run.
over() {
  within 10 "${there[@]}" curl --noproxy "*" -sG http://127.0.0.1:9090/api/v1/query --data-urlencode "query=$1[${seconds}s])" |
    python3 -c 'import json, sys; print(*(v["value"][1] for v in json.load(sys.stdin)["data"]["result"]))'
}
scrapes=$(over "count_over_time(up") answered=$(over "sum_over_time(up")
missed=$((scrapes - answered))
[ $missed -le $((${QUIET:-0} ? 0 : scrapes / 20)) ] && [ "$scrapes" -gt $((seconds / 2)) ] || die "$answered of $scrapes scrapes were answered, in up to $(over "max_over_time(scrape_duration_seconds") s"
reloads=$(grep -c "read again" "$out/forward.err")
[ "$reloads" -ge $((3 * round)) ] || die "$reloads lines of $((3 * round)) reloads"
stop forward "$forward" INT
[ $code -eq 0 ] || die "exit code $code"
holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"]) and forward["directions"][0]["sent"] > 0'
echo "$seconds s with $((3 * round)) flaps and $reloads lines of reloads: nothing grows, $answered of $scrapes scrapes are answered"
