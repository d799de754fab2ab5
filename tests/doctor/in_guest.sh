# Parts of tests/nics.sh about `wharf doctor`: an adapter, a VLAN, a macvlan and a bond on it. The host's kernel may have none of these.
# shellcheck shell=bash

# examined SPEC: doctor's verdicts, modes and errors are those of sending a frame and of receiving for a moment, in the guest.
examined() {
  local one=$1 command code interface
  interface=${one#*:} && interface=${interface%%,*}
  guest "run doctor - wharf -q doctor $one --probe $memory --json"
  echo $? >"$out/doctor.code"
  # A driver resets its adapter some time after a program has gone.
  guest "sleep 0.5; carrier $interface"
  for command in "send --to $one --size 60 --count 1" "receive --from $one --seconds 0.1"; do
    guest "run ${command%% *} - wharf -q $command $memory --json"
    code=$?
    [ $code -le 1 ] && [ -z "$reply" ] || die "$adapter: $one: wharf $command: exit code $code: $reply"
    guest "sleep 0.5; carrier $interface"
    report "${command%% *}"
  done
  report doctor
  python3 tests/doctor/agree.py "$out" "$one" || die "$adapter: $one"
}

examinations() {
  local one
  guest "ip link add link eth0 name eth0.5 type vlan id 5 && ip link set eth0.5 up && ip link add link eth0 name mv0 type macvlan && ip link set mv0 up" ||
    die "no interfaces on top: $reply"
  for one in xdp:eth0 xdp:eth0,mode=zerocopy xdp:eth0,mode=copy xdp:eth0,queue=9 packet:eth0 xdp:eth0.5 xdp:mv0; do
    examined $one
    guest "carrier eth0"
  done
  guest "ip link del eth0.5; ip link del mv0"
  guest rest
  [ -z "$reply" ] || die "$adapter: doctor leaves $reply"
  guest "wharf -q doctor xdp:eth0 --no-probe"
  echo "$reply"
}

# A VLAN and a bond carry frames both ways: what its own table says.
upper() {
  local name
  guest "ip link add link eth0 name eth0.5 type vlan id 5 && ip link set eth0.5 up && ip -n l link add link eth2 name eth2.5 type vlan id 5 && ip -n l link set eth2.5 up" ||
    die "no VLAN: $reply"
  guest "ip link set eth1 down; ip link add bo0 type bond mode active-backup && ip link set eth1 master bo0 && ip link set bo0 up && carrier bo0" || die "no bond: $reply"
  examined xdp:bo0
  for name in "- eth0.5 l eth2.5" "l eth2.5 - eth0.5" "- bo0 r eth3" "r eth3 - bo0"; do
    # shellcheck disable=SC2086
    set -- $name
    guest "begin got 'listening on' $3 wharf receive --from xdp:$4 $memory --json" || die "no receiver: $reply"
    guest "run sent $1 wharf send --to xdp:$2 --mac 02:00:00:00:00:01,\$(mac $3 $4) --size 100 --count 500 --rate 500pps $memory --json; sleep 0.5; finish got TERM"
    report sent && report got
    holds sent got 'sent["sent"] == got["generated"]["packets"] == 500 and got["lost"] == got["reordered"] == 0'
    echo "$adapter: $2 to $4: 500 frames, all there ($(python3 -c '
import json, sys
print("; ".join(json.load(open(sys.argv[1] + name))["mode"] for name in ("/sent.json", "/got.json")))' "$out"))"
  done
  guest "ip link del bo0; ip link del eth0.5; ip -n l link del eth2.5; ip link set eth1 up; carrier eth1"
}
