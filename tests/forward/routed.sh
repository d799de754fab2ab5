# `wharf forward --route`: a router between hosts of two subnets, with ICMP errors as their kernels read them. Sourced by tests/forward.sh.
# shellcheck shell=bash disable=SC2154

subnet() { # SPACE INTERFACE SUBNET NUMBER
  ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=0"
  ip -n "$1" addr add "10.9.$3.$4/24" dev "$2" && ip -n "$1" addr add "fd09:$3::$4/64" dev "$2" nodad || die "no addresses"
}

asked() { # ADDRESS BYTES TTL ANSWER [COUNT]: what COUNT (else three) datagrams of that length and time to live lead to
  local said
  said=$(in_a python3 crates/wharf-route/tests/routed/host.py ask "$1" "$2" "$3" "${5:-3}" | sort -u)
  [ "$said" = "$4" ] || die "$1, $2 bytes, TTL $3: $said, not $4"
}

subnets() { # once, at the end of the suite: they stay
  subnet $a ha 1 2 && subnet $b fa 1 1 && subnet $b fb 2 1 && subnet $c hb 2 2
  ip -n $a route add 10.9.2.0/24 via 10.9.1.1 && ip -n $a route add fd09:2::/64 via fd09:1::1 || die "no route"
  ip -n $c route add 10.9.1.0/24 via 10.9.2.1 && ip -n $c route add fd09:1::/64 via fd09:2::1 || die "no route"
  ip -n $a route add 203.0.113.0/24 via 10.9.1.1 && ip -n $b link set fb mtu 1300 && ip -n $c link set hb mtu 1300 || die "no route"
  start host "" nsenter --net=/run/netns/$c python3 crates/wharf-route/tests/routed/host.py serve
  soon grep -qs ready "$out/host.json" || die "no host"
}

kernel_too() { # A B: where the kernel forwards as well, a line names the setting that stops it
  ip netns exec $b sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv4.conf.fb.forwarding=0 || die "no forwarding"
  forward "$1" "$2" --route
  forwarded
  local remedy
  remedy=$(grep -o 'sysctl -w .*' "$out/forward.err" | sort -u)
  [ "$(grep -c ipv6 <<<"$remedy")" = 1 ] || die "no remedy for IPv6: $remedy"
  ip netns exec $b sh -ec "$remedy" >/dev/null || die "$remedy"
  forward "$1" "$2" --route
  ! grep 'sysctl -w' "$out/forward.err" || die "the remedy stops nothing"
  [ "$(ip netns exec $b cat /proc/sys/net/ipv6/conf/all/forwarding)" = 0 ] || die "the kernel forwards still"
  forwarded
  echo "the kernel forwards, too: its setting is named"
}

routed() { # KIND A B
  forward "$2" "$3" --route
  asked 10.9.2.2 200 64 "echo 63"
  asked fd09:2::2 200 64 "echo 63"
  asked 10.9.2.2 200 1 "11/0 from 10.9.1.1 mtu 0"
  asked fd09:2::2 200 1 "3/0 from fd09:1::1 mtu 0"
  asked 10.9.2.2 1400 64 "3/4 from 10.9.1.1 mtu 1300"
  asked fd09:2::2 1400 64 "2/0 from fd09:1::1 mtu 1300"
  asked 10.9.2.9 200 64 nothing 1 # nobody has this address
  [ "$1" = xdp ] || asked 203.0.113.1 200 64 "3/0 from 10.9.1.1 mtu 0"
  iperf "$1, routed, TCP, IPv4" 10.9.2.2
  iperf "$1, routed, TCP, IPv6, the other way" fd09:2::2 -R
  forwarded
  holds forward '(drops := forward["route"]["drops"]["by_reason"])["ttl-expired"] == 6 and drops["too-big"] >= 2 and drops["no-neighbour"] == 1
    and forward["route"]["packets"] == forward["route"]["routed"] + forward["route"]["left_to_host"] + forward["route"]["drops"]["total"]
    and forward["directions"][0]["drops"]["by_reason"]["no-neighbour"] == 1'
  echo "$1, routed: TTL, ICMP errors, an unknown neighbour, and TCP"
}
