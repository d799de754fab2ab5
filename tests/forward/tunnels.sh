# `wharf forward` under a tunnel whose super-packets and checksums its ends leave to others. Sourced by tests/forward.sh.
# shellcheck shell=bash disable=SC2154

tunnel_end() { # SPACE INTERFACE NUMBER; false where the kernel has no VXLAN
  ip -n "$1" link add tunnel type vxlan id 5 remote "10.9.0.$((3 - $3))" dstport 4789 dev "$2" 2>/dev/null || return 1
  ip -n "$1" addr add "10.10.0.$3/24" dev tunnel && ip -n "$1" link set tunnel up || die "no tunnel"
}

tunnels() { # KIND
  if ! tunnel_end $a ha 1; then
    echo "no VXLAN here: not tried"
    return
  fi
  tunnel_end $c hb 2 || die "no tunnel"
  forward "$1:fa" "$1:fb"
  iperf "$1, TCP in VXLAN" 10.10.0.2
  iperf "$1, TCP in VXLAN, the other way" 10.10.0.2 -R
  forwarded
  holds forward 'all("malformed" not in one["drops"]["by_reason"] for one in forward["directions"])'
  ip -n $a link del tunnel && ip -n $c link del tunnel
}
