//! A router of our own between two hosts, whose kernels talk to each other.

use crate::rig::Rig;
use crate::router;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wharf::queue::Rest;
use wharf::{Burst, Direction, Wait};
use wharf_route::{Reason, Router};

/// Forwards what arrives at each port.
fn serve(router: &Router) {
    for (name, port) in router.ports() {
        let mut sender = router.sender(name).expect("a sender");
        let index = router.tables().interface_index(name).expect("an interface");
        port.on_receive(move |burst: &mut Burst| {
            while let Some(frame) = burst.pop() {
                // An error says that a port is being closed.
                _ = sender.forward(frame, index, Wait::Never);
            }
            _ = sender.flush(Wait::Never);
            Rest::Free
        })
        .expect("a handler");
    }
}

/// A process that ends with the test.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
#[ignore = "root"]
fn hosts_reach_each_other_and_are_told_what_cannot_pass() {
    let rig = Rig::new(
        "forward",
        "
        ip netns del $A-c 2>/dev/null || true; ip netns add $A-c
        ip -n $B link set b2 netns $A-c; ip -n $A-c link set lo up; ip -n $A-c link set b2 up
        ip -n $A-c addr add 10.2.0.2/24 dev b2; ip -n $A-c addr add fd02::2/64 dev b2 nodad
        ip -n $B route add default via 10.1.0.1; ip -n $B route add default via fd01::1
        ip -n $A-c route add default via 10.2.0.1; ip -n $A-c route add default via fd02::1
        ip -n $A link set a2 mtu 1300
        ip netns exec $A sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0",
    )
    .expect("namespaces");
    let router = router(&["a1", "a2"], Direction::Both);
    serve(&router);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/routed/host.py");
    let mut host = Host(
        Command::new("ip")
            .args(["netns", "exec", &format!("{}-c", rig.name), "python3", script, "serve"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3"),
    );
    let mut ready = [0; 6];
    host.0.stdout.take().expect("a pipe").read_exact(&mut ready).expect("a host");
    // Returns what comes back for each of `count` datagrams.
    let ask = |to: &str, bytes: u32, ttl: u8, count: usize| {
        let said = rig.sh(&format!("ip netns exec $B python3 {script} ask {to} {bytes} {ttl} {count}"));
        let lines: Vec<_> = said.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{said}");
        assert!(lines.iter().all(|line| *line == lines[0]), "{said}: {:?}", router.counts());
        lines[0].clone()
    };
    // The answer has passed the router with 64, too.
    assert_eq!(ask("10.2.0.2", 200, 64, 50), "echo 63");
    assert_eq!(ask("fd02::2", 200, 64, 50), "echo 63");
    assert_eq!(ask("10.2.0.2", 1, 2, 5), "echo 63");
    assert_eq!(ask("10.2.0.2", 200, 1, 3), "11/0 from 10.1.0.1 mtu 0");
    assert_eq!(ask("fd02::2", 200, 1, 3), "3/0 from fd01::1 mtu 0");
    assert_eq!(ask("10.2.0.2", 1400, 64, 3), "3/4 from 10.1.0.1 mtu 1300");
    assert_eq!(ask("fd02::2", 1400, 64, 3), "2/0 from fd01::1 mtu 1300");
    assert_eq!(ask("203.0.113.1", 200, 64, 3), "3/0 from 10.1.0.1 mtu 0");
    assert_eq!(ask("2001:db8::1", 200, 64, 3), "1/0 from fd01::1 mtu 0");
    drop(host);

    // All is accounted for: what came in was forwarded, answered, or left to the kernel.
    router.ports().iter().for_each(|(_, port)| _ = port.close(Duration::from_secs(5)));
    let counts = router.counts();
    let dropped: u64 = counts.drops().map(|(_, count)| count).sum();
    assert_eq!(counts.given, counts.routed + counts.waiting + dropped, "{counts:?}");
    assert!(counts.dropped(Reason::Expired) >= 4 && counts.dropped(Reason::TooBig) >= 1, "{counts:?}");
    rig.shell("ip netns del $A-c");
}
