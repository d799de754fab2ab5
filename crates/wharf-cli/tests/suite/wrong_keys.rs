//! Each key of each kind of device, with a value that cannot be: a program can match the error, and the command says that it was
//! used wrongly.

use crate::common::wharf;
use wharf::device::{DeviceSpec, Key, Kind};
use wharf::{Direction, OpenErrorKind, Port};
use wharf_cli::Registries;
use wharf_core::options::Values;
use wharf_devices::spec::Place;

/// Values that cannot be, of keys whose owner reads the text. `None`: any text can be.
const TEXTS: &[(&str, &str, Option<&str>)] = &[
    ("udp", "interface", Some("lo")),
    ("verbs", "gid", Some("256")),
    ("verbs", "peer", Some("nobody")),
    ("vhost-user", "mode", Some("1000")),
    ("vhost-user", "group", Some("no such group")),
    ("vhost-user", "mac", Some("01")),
    ("vhost-user", "ip", Some("10.0.0.256")),
    ("virtio-user", "mac", Some("01")),
    ("virtio-user", "ip", Some("10.0.0.256")),
    ("tap", "mac", Some("01")),
    ("tap", "ip", Some("10.0.0.256")),
    ("xdp", "queue", Some("5-2")),
    ("xdp", "steer", Some("icmp:1")),
    ("xdp", "map", Some("relative")),
    ("xdp", "program", Some("relative")),
    ("xdp", "helper", None),
];

/// Specifications that their kind refuses for another reason than the value of one key.
const TOGETHER: &[(&str, Direction)] = &[
    ("udp:", Direction::Send),
    ("udp:127.0.0.1:65536", Direction::Send),
    ("udp:127.0.0.1:0", Direction::Send),
    ("udp:127.0.0.1:0,dest=socket", Direction::Receive),
    ("udp:224.0.0.9:9", Direction::Both),
    ("tap:a/b", Direction::Send),
    ("wire:ring=3", Direction::Send),
    ("wire:rate=0bit", Direction::Send),
    ("vhost-user:/nowhere/s,client=on,mode=600", Direction::Send),
    ("virtio-user:/nowhere/s,size=3", Direction::Send),
    ("virtio-user:/nowhere/s,napi=off,clean=poller", Direction::Send),
    ("xdp:lo,csum=off", Direction::Send),
    ("xdp:lo,csum=offload", Direction::Receive),
    ("xdp:lo,program=/p", Direction::Receive),
    ("xdp:lo,helper=/h,map=/m", Direction::Receive),
    ("xdp:lo,helper=/h,promisc=off", Direction::Receive),
    ("xdp:lo,map=/m,steer=udp:9", Direction::Receive),
    ("e1000:lo", Direction::Send),
];

fn place(kind: &Kind) -> &'static str {
    match kind.place {
        Place::Nowhere => "",
        Place::File(_) => "/nowhere/f,",
        Place::Interface(_) => "lo,",
        Place::Socket(_) => "/nowhere/s,",
        Place::Address(_) => "127.0.0.1:9,",
        Place::Adapter(_) => "0000:ff:1f.7,",
        Place::Device(_) => "none0,",
    }
}

/// Returns a value that `key` of `kind` does not take; `None` if it takes any.
fn wrong_value(kind: &str, key: &Key) -> Option<String> {
    let text = || TEXTS.iter().find(|(of, name, _)| (*of, *name) == (kind, key.name));
    match key.values {
        Values::Number { most: u64::MAX, .. } => Some("many".into()),
        Values::Number { most, .. } => Some((most + 1).to_string()),
        Values::Text | Values::Forms(_) => {
            text().unwrap_or_else(|| panic!("{kind}: {} has no row here", key.name)).2.map(String::from)
        }
        _ => Some("5-2".into()),
    }
}

fn assert_refused(spec: &str, direction: Direction) {
    let devices = || Registries::default().devices;
    let error = Port::builder(spec, direction).registry(devices()).build().expect_err(spec);
    assert_eq!(error.kind(), OpenErrorKind::BadKey, "{spec}: {error}");
    let read: Result<DeviceSpec, _> = devices().parse(spec);
    if let Ok(read) = read {
        let again = Port::builder_of(&read, direction).build().expect_err(spec);
        assert_eq!((again.kind(), again.to_string()), (error.kind(), error.to_string()), "read before");
    }
    let option = match direction {
        Direction::Receive => "receive --from",
        Direction::Send => "send --count 1 --to",
        Direction::Both => return,
    };
    let done = wharf(&option.split(' ').chain([spec]).collect::<Vec<_>>());
    // A note on what the host no longer receives may come first.
    let last = done.stderr.lines().last().unwrap_or_default();
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{spec}: {done:?}");
    assert!(last.ends_with(&error.to_string()), "{spec}: {done:?}");
}

#[test]
fn each_wrong_value_of_each_kind_is_refused_as_a_key() {
    for kind in Registries::default().devices.kinds() {
        let either = if kind.can.send { Direction::Send } else { Direction::Receive };
        for (keys, direction) in
            [(kind.keys, either), (kind.tx_keys, Direction::Send), (kind.rx_keys, Direction::Receive)]
        {
            for key in keys {
                if let Some(value) = wrong_value(kind.name, key) {
                    assert_refused(&format!("{}:{}{}={value}", kind.name, place(kind), key.name), direction);
                }
            }
        }
    }
}

#[test]
fn keys_that_cannot_be_together_are_refused_as_keys() {
    let all = Registries::default().devices;
    let kinds: Vec<&str> = all.kinds().iter().map(|kind| kind.name).collect();
    for (spec, direction) in TOGETHER {
        if kinds.iter().any(|kind| spec.split(':').next() == Some(kind)) {
            assert_refused(spec, *direction);
        }
    }
}

#[test]
fn what_a_kind_cannot_do_at_all_is_not_about_a_key() {
    for (spec, direction) in [("null", Direction::Receive), ("null", Direction::Both)] {
        let error = Port::builder(spec, direction).build().expect_err(spec);
        assert_eq!(error.kind(), OpenErrorKind::Unsupported, "{error}");
    }
}
