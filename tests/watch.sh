#!/usr/bin/env bash
# A running forwarder, watched from outside: Prometheus scrapes it and raises alerts, `wharf set` changes its rate, `wharf top` draws it in a
# terminal. The last part makes random runs: the same 12 each time, or AGREE="ROUNDS [SEED]". Wants root. Leaves nothing behind; every
# command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
space $a
space $b
space $c
ip -n "$b" link set lo up || die "no loopback"
pair $a a0 $b b0
pair $b b1 $c c1
control=$out/control prometheus=${PROMETHEUS:-prometheus}
trap 'for server in "$out"/tmux-*; do tmux -S "$server" kill-server 2>/dev/null; done; cleanup' EXIT

# value QUERY: puts the answer of Prometheus to an instant query into $value, or nothing while there is none.
value() {
  value=$(within 10 "${there[@]}" curl --noproxy "*" -sG "http://127.0.0.1:9090/api/v1/query" --data-urlencode "query=$1" |
    python3 -c 'import json, sys; print(*(v["value"][1] for v in json.load(sys.stdin)["data"]["result"]))' 2>/dev/null)
}

# counter EXPRESSION: puts a value of the forwarder's first direction into $counter, or nothing while there is none.
counter() {
  counter=$(within 10 "$wharf" show "$control" --json | python3 -c "import json, sys; path = json.load(sys.stdin)['paths'][0]; print($1)" 2>/dev/null)
}

# comes CONDITION: waits until it holds for the forwarder's first direction.
comes() { soon holds_now "$1" || die "never $1: $("$wharf" show "$control")"; }
holds_now() {
  counter "$1"
  [ "$counter" = True ]
}

start forward "wharf: forwarding" "$wharf" forward packet:b0 packet:b1 --rate 20mbit --metrics 127.0.0.1:9100 --control "$control" --json
forward=$pid
cat >"$out/prometheus.yml" <<END
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs: [{job_name: wharf, static_configs: [{targets: ["127.0.0.1:9100"]}]}]
END
start prometheus "ready to receive" "$prometheus" --config.file="$out/prometheus.yml" --storage.tsdb.path="$out/data" \
  --web.listen-address=127.0.0.1:9090

traffic() { # 40 Mbit/s, into a rate of 20 and then of 5
  ip netns exec $a "$wharf" send --size 1000 --rate 5kpps --seconds 200 --to packet:a0 --json >"$out/send.json" 2>"$out/send.err" &
  local sender=$!
  # A machine that stands still may let less through, but no more.
  comes "path['settings']['rate'] == '20000000bit' and 8e6 < path['rates']['sent_bps'] < 22e6"
  within 10 "$wharf" set "$control" a-b.rate=5mbit >"$out/set.err" || die "the rate does not change"
  comes "1e6 < path['rates']['sent_bps'] < 5.6e6"
  stop send $sender INT
  [ $code -eq 0 ] || die "the sender fails"
  echo "a forwarder at 20 Mbit/s has 5 as soon as \`wharf set\` says so"
}

same_value() { # QUERY EXPRESSION: true if both have it, and it is more than nothing
  counter "$2"
  value "$1"
  [ "$value" = "$counter" ] && [ "${counter:-0}" -gt 0 ]
}

scraped() { # once nothing moves, the answers of Prometheus are the counters
  for pair in "wharf_queue_sent_packets_total{path=\"a-b\"} path['sent']" "wharf_queue_bytes_total{path=\"a-b\"} path['bytes']" \
    "wharf_receiver_received_packets_total{path=\"a-b\"} path['received_packets']" "wharf_queue_drops_packets_total{path=\"a-b\",reason=\"overlimit\"} path['drops']['overlimit']"; do
    read -r name expression <<<"$pair"
    soon same_value "$name" "$expression" || die "$name is $value for Prometheus, and $counter for the forwarder"
  done
  value 'up{job="wharf"}'
  [ "$value" = 1 ] || die "up is $value"
  echo "the answers of Prometheus to instant queries are the counters of the forwarder"
}

shows() { $screen capture-pane -p >"$out/screen" && grep -q "$1" "$out/screen"; } # TEXT
childless() { ! pgrep -P "$1" >/dev/null; }                                       # PID

picture() { # the whole picture at both sizes, the terminal restored at the end of the run and on SIGTERM
  local screen shell
  for size in "80 24" "200 50"; do
    read -r width height <<<"$size"
    # A server of its own: one that is about to end takes no sessions.
    screen="tmux -S $out/tmux-$width"
    $screen new-session -d -x "$width" -y "$height" "bash --norc" || die "no terminal"
    $screen send-keys "'$wharf' top '$control' --interval 0.2" Enter
    for what in "wharf forward, process" "a-b: packet:b0 to packet:b1" "b-a: packet:b1 to packet:b0" "overlimit" "sent per second, peak" "? help"; do
      soon shows "$what" || die "$size: no \"$what\" in: $(cat "$out/screen")"
    done
    shell=$($screen display -p '#{pane_pid}')
    pkill -TERM -P "$shell"
    soon childless "$shell" || die "wharf top goes on"
    $screen send-keys "echo restored" Enter
    soon shows '^restored$' && ! grep -q "q quit" "$out/screen" || die "not restored: $(cat "$out/screen")"
    $screen kill-server
  done
  echo "wharf top draws all of it on 80x24 and 200x50, and leaves the terminal as it was"
}

alerts() { # each alert of docs/alerts.yml on counters that should raise it, and on those that should not
  within 30 "${PROMTOOL:-promtool}" test rules tests/alerts.yml >"$out/alerts" 2>&1 || die "alerts: $(cat "$out/alerts")"
  echo "loss of each kind raises its alert, and what a discipline drops to shape raises none"
}

traffic
scraped
alerts
picture
kill -INT "$forward"
wait "$forward" || die "the forwarder fails"
[ ! -e "$control" ] || die "the control socket stays"
python3 -c "
import json
path = json.load(open('$out/forward.json'))['directions'][0]
# The kernel drops some before they are received.
drops = sum(count for why, count in path['drops']['by_reason'].items() if why not in ('thinned', 'ring-full'))
assert path['received_packets'] == path['sent'] + path['returned'] + drops and path['pool']['out'] == 0, path" || die "the account"
echo "all packets are accounted for"
pair "$c" agree0 "$c" agree1
ip -n "$c" link set lo up && ip netns exec "$c" tests/agree.py "$wharf" ${AGREE:-12 7} || die "views of random runs disagree"
