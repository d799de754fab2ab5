//! Right specifications, and the errors of wrong ones.

use wharf_core::options::Key;
use wharf_devices::open::{Direction, open};
use wharf_devices::registry::Registry;
use wharf_devices::spec::Kind;

/// A specification, and its error; KINDS stands for the names of all kinds.
const WRONG: &[(&str, &str)] = &[
    ("", r#""": unknown kind of device; there are KINDS"#),
    (
        "eth77",
        r#""eth77": unknown kind of device; there are KINDS; if it is an interface, none here has that name: `ip link` lists them"#,
    ),
    ("./x.pcap", r#""./x.pcap": unknown kind of device; there are KINDS"#),
    ("wires:x", r#""wires:x": unknown kind of device; there are KINDS; did you mean wire?"#),
    ("no\nline", r#""no\nline": unknown kind of device; there are KINDS"#),
    ("null:x=1", r#"null: unknown key "x"; it takes none"#),
    ("null:eth0", r#"null: "eth0" is no key=value; it takes none"#),
    ("wire:speed=1", r#"wire: unknown key "speed"; its keys are rate, delay, ring, overhead"#),
    ("wire:fast", r#"wire: "fast" is no key=value; its keys are rate, delay, ring, overhead"#),
    ("wire:ring=2,", r#"wire: "" is no key=value; its keys are rate, delay, ring, overhead"#),
    ("wire:ring=2,ring=4", "wire: ring is given twice"),
    ("wire:ring=3", "wire: ring=3 cannot be: a power of two from 2 to 65536"),
    ("wire:ring=1", "wire: ring=1 cannot be: a power of two from 2 to 65536"),
    ("wire:ring=8589934592", "wire: ring=4294967295 cannot be: a power of two from 2 to 65536"),
    ("wire:rate=10", r#"wire: rate: "10" is no bit rate: write it like 10gbit, 100mbit, 1g"#),
    ("wire:rate=0bit", "wire: rate: 0 would never send; leave the key out for no bound"),
    ("wire:delay=1kg", r#"wire: delay: "1kg" is no time: write it like 1ms, 20us, 1.5s"#),
    ("wire:delay=9999s", "wire: delay: 9999s is beyond 60s"),
    ("wire:delay=60001ms", "wire: delay: 60.001s is beyond 60s"),
    ("wire:overhead=1m", "wire: overhead: 1048576 cannot be: 0 to 65536 bytes"),
    ("pcap", "pcap: which file? pcap:FILE"),
    ("pcap:", "pcap: which file? pcap:FILE"),
    ("pcap:a,order=xe", r#"pcap:a: order: "xe" is none of le, be"#),
    (
        "pcap:a,snapped=pad",
        r#"pcap:a: snapped is a key to receive alone; its keys are resolution, format, order, size, every, files"#,
    ),
];

const WRONG_OF_INTERFACES: &[(&str, &str)] = &[
    ("packet", "packet: which interface? packet:INTERFACE"),
    ("packet:,ring=2", "packet: which interface? packet:INTERFACE"),
    ("packet:x,ring=0", "packet:x: ring: 0 cannot be: 1 to 65536 frames"),
    ("packet:x,ring=1m", "packet:x: ring: 1048576 cannot be: 1 to 65536 frames"),
    ("packet:x,bypass=yes", r#"packet:x: bypass: "yes" is none of off, on"#),
    ("packet:x,gso=cut", r#"packet:x: gso is a key to receive alone; its keys are bypass, ring, limit"#),
    ("tap", "tap: which interface? tap:NAME"),
    ("tap:x,mtu=60", "tap:x: mtu: 60 cannot be: 68 to 65521"),
    ("tap:x,ring=0", "tap:x: ring: 0 cannot be: 1 to 65536"),
    ("tap:x,sndbuf=3g", "tap:x: sndbuf: 3221225472 cannot be: 1 to 2147483647"),
    ("tap:x,persist=yes", r#"tap:x: persist: "yes" is none of off, on"#),
    ("tap:x y", "tap:x y: no name of an interface: 1 to 15 bytes without spaces, /, : and %"),
    ("udp", "udp: which address? udp:HOST:PORT, with an IPv6 address in brackets: udp:[::1]:53"),
    ("udp::9", "udp::9: which address? udp:HOST:PORT, with an IPv6 address in brackets: udp:[::1]:53"),
    ("udp:127.0.0.1:x", r#"udp:127.0.0.1:x: "x" is no port: 0 to 65535"#),
    ("udp:127.0.0.1:65536", r#"udp:127.0.0.1:65536: "65536" is no port: 0 to 65535"#),
    ("udp:127.0.0.1:0", "udp:127.0.0.1:0: port 0 is reserved"),
    ("udp:::1:53", "udp:::1:53: an IPv6 address stands in brackets: udp:[::1]:53"),
    ("udp:[::1]:53,dest=x", r#"udp:[::1]:53: dest: "x" is none of socket, frame"#),
    ("udp:[::1]:53,buffer=2g", "udp:[::1]:53: buffer: 2147483648 cannot be: 4k to 1g bytes"),
    (
        "udp:[::1]:53,ring=2",
        r#"udp:[::1]:53: unknown key "ring"; its keys are dest, gso, gro, buffer, interface"#,
    ),
    ("virtio-user", "virtio-user: which socket? virtio-user:SOCKET"),
    (
        "virtio-user:x,size=3",
        "virtio-user:x: size: a split ring cannot have 3 descriptors: a power of two from 1 to 32768",
    ),
    (
        "virtio-user:x,size=64k,packed=on",
        "virtio-user:x: size: a packed ring cannot have 65536 descriptors: 1 to 32768",
    ),
    ("virtio-user:x,offload=auto", r#"virtio-user:x: offload: "auto" is none of on, off"#),
    ("virtio-user:x,mrg_rxbuf=yes", r#"virtio-user:x: mrg_rxbuf: "yes" is none of auto, on, off"#),
];

fn fault(spec: &str, direction: Direction) -> String {
    let message = open(spec, direction).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

#[test]
fn right_specification_opens() {
    for spec in ["null", "null:", "wire", "wire:", "wire:ring=2", "wire,ring=65536", "wire:delay=60s"] {
        let opened = open(spec, Direction::Send).unwrap();
        assert_eq!(opened.far_end.is_some(), spec.starts_with("wire"), "{opened:?}");
    }
    let opened = open("wire:rate=10gbit,delay=1ms,ring=64,overhead=0", Direction::Receive).unwrap();
    assert_eq!(opened.device.as_tx().unwrap().info().ring_frames, Some(64));
}

#[test]
fn wrong_specification_gives_one_line_with_the_right_form() {
    let registry = Registry::default();
    let kinds = registry.kinds().iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    for (spec, message) in WRONG.iter().chain(WRONG_OF_INTERFACES) {
        assert_eq!(fault(spec, Direction::Send), message.replace("KINDS", &kinds), "{spec:?}");
    }
    assert_eq!(
        fault("packet:x,buffer=4g", Direction::Receive),
        "packet:x: buffer: 4294967296 cannot be: 256k to 1g bytes"
    );
    assert_eq!(
        fault("packet:x,gso=half", Direction::Receive),
        r#"packet:x: gso: "half" is none of cut, keep"#
    );
    assert_eq!(
        fault("packet:x,speed=1", Direction::Receive),
        r#"packet:x: unknown key "speed"; its keys are gso, buffer, promisc, tpacket"#
    );
    assert_eq!(
        fault("udp:127.0.0.1:0,dest=socket", Direction::Receive),
        r#"udp:127.0.0.1:0: dest: "socket" is none of frame"#
    );
    assert_eq!(
        fault("pcap:a,order=le", Direction::Receive),
        "pcap:a: order is a key to send alone; its keys are snapped"
    );
}

#[test]
fn a_kind_added_is_parsed_and_one_of_the_same_name_replaced() {
    static MINE: Kind = Kind::new("mine", "mine", "a test's own", |_, _| Ok(Vec::new()));
    static NULL: Kind = Kind::new("null", "null", "another one", |_, _| Ok(Vec::new()));
    let registry = Registry::default().with(&MINE).and_then(|registry| registry.with(&NULL)).unwrap();
    assert_eq!(registry.kinds().len(), Registry::default().kinds().len() + 1);
    assert_eq!(registry.parse("mine").unwrap().kind().summary, "a test's own");
    assert_eq!(registry.parse("null").unwrap().kind().summary, "another one");
    assert_eq!(registry.parse("mine:x=1").unwrap_err().to_string(), "mine: unknown key \"x\"; it takes none");
}

#[test]
fn a_kind_with_two_keys_of_one_name_is_refused_and_one_key_in_two_tables_is_not() {
    const RING: Key = Key::off_on("ring", "a ring");
    static SAME: Kind =
        Kind { tx_keys: &[RING], rx_keys: &[RING], ..Kind::new("mine", "mine", "", |_, _| Ok(Vec::new())) };
    static OTHER: Kind = Kind { rx_keys: &[Key::on_off("ring", "another ring")], ..SAME };
    assert!(Registry::default().with(&SAME).is_ok());
    let refused = Registry::default().with(&OTHER).unwrap_err().to_string();
    assert_eq!(refused, "mine: its tables of keys have two different ones called ring");
}

/// Loopback is an interface of every machine.
#[test]
fn the_name_of_an_interface_gets_its_specifications() {
    for text in ["lo", "lo:x", "lo,gso=keep"] {
        let told = open(text, Direction::Send).unwrap_err().to_string();
        let wanted = format!("\"{text}\": lo is an interface: packet:lo or xdp:lo");
        assert!(told == wanted || cfg!(not(all(feature = "packet", feature = "xdp"))), "{told}");
    }
}
