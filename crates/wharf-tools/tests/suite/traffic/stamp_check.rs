//! Generated packets, checked as they arrive.

use wharf_tools::traffic::{Arrival, Check, Findings, Generator, GeneratorSpec, Sizes, StampCheck, Verify};

fn check(received: impl FnOnce(&[Generator]) -> Vec<Vec<u8>>) -> Findings {
    let spec = GeneratorSpec { senders: 2, flows: 4, sizes: Sizes::Imix, ..GeneratorSpec::default() };
    let generators = spec.generators().unwrap();
    let mut check = StampCheck::new(generators.clone());
    received(&generators)
        .iter()
        .for_each(|frame| check.check(frame, Arrival { monotonic_ns: 1500, wall_ns: 0 }));
    check.findings().clone()
}

fn packet(generators: &[Generator], sender: usize, number: u64) -> Vec<u8> {
    let mut packet = vec![0; generators[sender].len_of(number) as usize];
    generators[sender].write_packet(&mut packet, number, 500);
    packet
}

#[test]
fn packets_in_order_are_right_however_senders_interleave() {
    let order = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)];
    let findings = check(|all| order.map(|(sender, number)| packet(all, sender, number)).into());
    assert_eq!((findings.packets, findings.errors), (6, 0));
    let mut latency = findings.latencies.unwrap().all();
    assert_eq!(latency.packets(), 6);
    assert!(latency.quantile_ns(0.5).abs_diff(1000) < 10);
}

#[test]
fn gaps_repeats_and_changes_are_found() {
    for (order, errors, what) in [
        ([0, 3, 4], 2, "sender 1: 2 lost before packet 3"),
        ([0, 1, 1], 1, "sender 1: packet 1 came after 2"),
    ] {
        let findings = check(|all| order.map(|number| packet(all, 1, number)).into());
        assert_eq!((findings.errors, findings.first_error.as_deref()), (errors, Some(what)));
    }
    for byte in 0..60 {
        let findings = check(|all| {
            let mut changed = packet(all, 0, 0);
            changed[byte] ^= 4;
            vec![changed]
        });
        assert!(findings.errors > 0, "byte {byte}");
    }
    assert_eq!(check(|_| vec![vec![], vec![0; 60]]).errors, 2);
}
