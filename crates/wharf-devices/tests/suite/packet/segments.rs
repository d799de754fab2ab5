//! Super-packets cut by the kernel, on an interface that has no offloads, and by us: the same frames.

use crate::net::with_pair;
use std::process::Command;
use wharf_devices::open::Direction;
use wharf_testkit::end::End;
use wharf_testkit::packets::{Shape, cut};

/// One of each thing that headers can have, and several at once.
fn shapes() -> Vec<Shape> {
    let tcp = Shape::default();
    let tcp6 = Shape { is_ipv6: true, ..tcp.clone() };
    let (udp, udp6) = (Shape { is_udp: true, ..tcp.clone() }, Shape { is_udp: true, ..tcp6.clone() });
    let with = |shape: &Shape, change: fn(&mut Shape)| {
        let mut shape = shape.clone();
        change(&mut shape);
        shape
    };
    let mut shapes = vec![tcp.clone(), tcp6.clone(), udp.clone(), udp6.clone()];
    for shape in [&tcp, &tcp6, &udp, &udp6] {
        shapes.push(with(shape, |shape| shape.tags = 1));
        shapes.push(with(shape, |shape| shape.tags = 2));
        shapes.push(with(shape, |shape| (shape.payload, shape.gso_bytes) = (3001, 1000)));
        shapes.push(with(shape, |shape| (shape.payload, shape.gso_bytes) = (999, 333)));
        shapes.push(with(shape, |shape| (shape.payload, shape.gso_bytes) = (2801, 1400)));
        shapes.push(with(shape, |shape| shape.identification = 0xfffe));
        shapes.push(with(shape, |shape| shape.payload = 65_000 - 80));
    }
    for shape in [&tcp, &tcp6] {
        // FIN and PSH, CWR and ECE, none, all that may be in a super-packet; and options of all lengths.
        for tcp_flags in [0x11, 0x19, 0xd8, 0x00, 0x10, 0x3d] {
            shapes.push(Shape { tcp_flags, ..shape.clone() });
        }
        for tcp_options in [0, 4, 20, 40] {
            shapes.push(Shape { tcp_options, ..shape.clone() });
        }
    }
    for shape in [&tcp, &udp] {
        shapes.push(with(shape, |shape| shape.ip_options = 4));
        shapes.push(with(shape, |shape| (shape.ip_options, shape.tags) = (40, 1)));
    }
    for shape in [&tcp6, &udp6] {
        for extensions in [vec![0], vec![43], vec![60], vec![0, 60, 43, 60]] {
            shapes.push(Shape { extensions, ..shape.clone() });
        }
    }
    shapes
}

/// The interface does nothing itself then: the kernel cuts, and fills in checksums, before it has the frames.
fn without_offloads(interface: &str) {
    let features = ["tx", "tso", "gso", "tx-udp-segmentation", "tx-gso-list", "sg"];
    let arguments = features.iter().flat_map(|feature| [*feature, "off"]);
    let status = Command::new("ethtool").args(["-K", interface]).args(arguments).status().unwrap();
    assert!(status.success(), "ethtool -K {interface}");
}

#[test]
#[ignore = "wants root"]
fn the_kernel_cuts_the_same_pieces() {
    with_pair(|| {
        without_offloads("va");
        let mut from = End::sender("packet:va");
        let mut to = End::new("packet:vb,gso=keep", Direction::Receive, 1984);
        for shape in shapes() {
            let (packet, meta) = shape.packet();
            let expected = cut(&packet, &meta);
            assert!(expected.len() > 2, "{shape:?}");
            from.offer_with(&packet, Some(&meta));
            assert_eq!(from.send_all(), (1, vec![]), "{shape:?}");
            let pieces = to.receive(expected.len());
            assert_eq!(pieces.len(), expected.len(), "{shape:?}");
            for (at, (kernel, ours)) in pieces.iter().zip(&expected).enumerate() {
                assert!(kernel == ours, "piece {at} of {shape:?}:\n{kernel:02x?}\n{ours:02x?}");
            }
        }
        [from, to].iter_mut().for_each(End::assert_all_home);
    });
}
