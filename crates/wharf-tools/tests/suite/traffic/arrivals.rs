//! Arrivals from outside: senders told apart, losses, and clocks of other machines.

use wharf_tools::traffic::{
    Arrival, Arrivals, Check, Generator, GeneratorSpec, STREAMS_MAX, SequenceCounts, StreamReport,
};

fn at(monotonic_ns: u64) -> Arrival {
    Arrival { monotonic_ns, wall_ns: 0 }
}

fn packet(generator: &Generator, number: u64, time_ns: u64) -> Vec<u8> {
    let mut packet = vec![0; generator.len_of(number) as usize];
    generator.write_packet(&mut packet, number, time_ns);
    packet
}

fn generators(source: [u8; 4], senders: u16) -> Vec<Generator> {
    let flows = u32::from(senders);
    let spec = GeneratorSpec { source: source.into(), senders, flows, ..GeneratorSpec::default() };
    spec.generators().unwrap()
}

#[test]
fn senders_of_all_addresses_are_told_apart() {
    let all: Vec<Generator> = [generators([10, 0, 0, 1], 2), generators([10, 0, 0, 2], 2)].concat();
    let mut arrivals = Arrivals::default();
    for number in [0, 1, 4, 2] {
        for generator in &all {
            arrivals.check(&packet(generator, number, 1000), at(2000 + number));
        }
    }
    arrivals.check(b"something else", at(1500));
    arrivals.check(b"before the machine started", at(u64::MAX - 495));
    assert_eq!((arrivals.all().packets, arrivals.unstamped(), arrivals.all().span_ns()), (18, 2, 2500));
    let stamped = arrivals.stamped();
    assert_eq!((stamped.packets, stamped.bytes, stamped.span_ns()), (16, 16 * 60, 4));
    let each = SequenceCounts { packets: 4, lost: 1, reordered: 1, duplicated: 0, lost_before_first: 0 };
    let streams: Vec<StreamReport> = arrivals.streams().collect();
    assert!(streams.len() == 4 && streams.iter().all(|stream| stream.counts == each), "{streams:?}");
    assert_eq!(
        arrivals.counts(),
        SequenceCounts { packets: 16, lost: 4, reordered: 4, duplicated: 0, lost_before_first: 0 }
    );
    assert_eq!(arrivals.latencies().unwrap().all().max_ns(), 1004);
}

#[test]
fn two_runs_with_the_same_numbers_are_told_apart() {
    let of_run = |run: u8| GeneratorSpec { run, ..GeneratorSpec::default() }.generators().unwrap().remove(0);
    let (one, other) = (of_run(1), of_run(2));
    let mut arrivals = Arrivals::default();
    // The second began when the first had sent 1000.
    for number in 0..2000 {
        arrivals.check(&packet(&one, number, 1000 + number), at(2000 + number));
        if let Some(number) = u64::checked_sub(number, 1000) {
            arrivals.check(&packet(&other, number, 2000 + number), at(3000 + number));
        }
    }
    assert_eq!(arrivals.counts(), SequenceCounts { packets: 3000, ..SequenceCounts::default() });
    let streams: Vec<(u16, u8)> = arrivals.streams().map(|stream| (stream.sender, stream.run)).collect();
    assert_eq!(streams, [(0, 1), (0, 2)]);
}

#[test]
fn a_clock_of_another_machine_gives_no_latency() {
    let generator = &generators([10, 0, 0, 1], 1)[0];
    let arrived_ns = 10_000_000_000_000;
    for (made_ns, is_known) in [
        (arrived_ns - 5, true),
        (arrived_ns + 5, true),
        (1, false),
        (arrived_ns + 2_000_000, false),
        (u64::MAX, false),
    ] {
        let mut arrivals = Arrivals::default();
        arrivals.check(&packet(generator, 0, made_ns), at(arrived_ns));
        assert_eq!(arrivals.latencies().is_some(), is_known, "{made_ns}");
    }
}

#[test]
fn more_senders_than_are_told_apart_cost_no_memory() {
    let mut arrivals = Arrivals::default();
    for host in 0..STREAMS_MAX as u32 + 10 {
        let generator = &generators(host.to_be_bytes(), 1)[0];
        arrivals.check(&packet(generator, 0, 5), at(6));
    }
    assert_eq!((arrivals.streams().count(), arrivals.unstamped()), (STREAMS_MAX, 10));
}
