//! The link in bytes and in time, beside the specification and published figures.

use proptest::prelude::*;
use wharf_plan::pcie::*;

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

/// ACK latency limits of the base specification, tables 3-7 to 3-9: lanes 1, 2, 4, 8, 12, 16, 32 down, MPS
/// 128 to 4096 across.
const LIMITS: [[[u32; 6]; 7]; 3] = [
    [
        [237, 416, 559, 1071, 2095, 4143],
        [128, 217, 289, 545, 1057, 2081],
        [73, 118, 154, 282, 538, 1050],
        [67, 107, 86, 150, 278, 534],
        [58, 90, 109, 194, 365, 706],
        [48, 72, 86, 150, 278, 534],
        [33, 45, 52, 84, 148, 276],
    ],
    [
        [288, 467, 610, 1122, 2146, 4194],
        [179, 268, 340, 596, 1108, 2132],
        [124, 169, 205, 333, 589, 1101],
        [118, 158, 137, 201, 329, 585],
        [109, 141, 160, 245, 416, 757],
        [99, 123, 137, 201, 329, 585],
        [84, 96, 103, 135, 199, 327],
    ],
    [
        [333, 512, 655, 1167, 2191, 4239],
        [224, 313, 385, 641, 1153, 2177],
        [169, 214, 250, 378, 634, 1146],
        [163, 203, 182, 246, 374, 630],
        [154, 186, 205, 290, 461, 802],
        [144, 168, 182, 246, 374, 630],
        [129, 141, 148, 180, 244, 372],
    ],
];

#[test]
fn the_limits_are_those_of_the_specification() {
    for generation in Generation::ALL {
        let table = LIMITS[(generation.number() as usize).min(3) - 1];
        for (row, lanes) in table.iter().zip([1, 2, 4, 8, 12, 16, 32]) {
            for (&limit, mps) in row.iter().zip([128, 256, 512, 1024, 2048, 4096]) {
                let link = Link::new(generation, lanes).unwrap().mps(mps).unwrap();
                assert_eq!(link.ack_limit_bytes(), limit, "{link}");
            }
        }
    }
}

#[test]
fn bandwidth_for_tlps_in_units_of_100_mbit() {
    let table = [
        ("gen1x16", 248),
        ("gen2x16", 555),
        ("gen3x16", 1137),
        ("gen4x16", 2274),
        ("gen5x16", 4548),
        ("gen1x8", 136),
        ("gen2x8", 287),
        ("gen3x8", 579),
        ("gen4x8", 1158),
        ("gen5x8", 2315),
    ];
    for (text, hundred_mbit) in table {
        assert_eq!((link(text).tlp_bits_per_second() + 50_000_000) / 100_000_000, hundred_mbit, "{text}");
    }
}

#[test]
fn golden_bandwidths_to_the_bit() {
    let table = [
        ("gen1x1,mps=128", 2_000_000_000, 1_859_777_342),
        ("gen3x16", 126_030_769_231, 113_700_060_494),
        ("gen3x4,mps=512", 31_507_692_308, 29_409_255_417),
        ("gen4x8,mps=128", 126_030_769_231, 113_331_872_445),
        ("gen5x16,mps=4096", 504_123_076_923, 490_008_837_826),
        ("gen6x16", 968_000_000_000, 944_000_000_000),
    ];
    let measured =
        table.map(|(text, ..)| (text, link(text).raw_bits_per_second(), link(text).tlp_bits_per_second()));
    assert_eq!(measured, table);
}

#[test]
fn transfers_by_hand() {
    let link = link("gen3x16");
    let both = |traffic: Traffic| (traffic.to_nic, traffic.to_host);
    assert_eq!(both(link.write_to_nic(8)), (32, 0));
    assert_eq!(both(link.nic_write(64)), (0, 88));
    assert_eq!(both(link.nic_write(257)), (0, 257 + 48));
    assert_eq!(both(link.nic_read(64)), (84, 24));
    // 40 descriptors of 16 bytes: two requests (512 + 128), three completions (256 + 256 + 128).
    assert_eq!(both(link.nic_read(640)), (640 + 60, 48));
    assert_eq!(both(link.read_from_nic(4)), (24, 24));
    assert_eq!(both(link.nic_read(0)), (0, 0));
}

/// In flits a TLP has no framing, sequence number and check of its own.
#[test]
fn transfers_in_flits_by_hand() {
    let link = link("gen6x16");
    let both = |traffic: Traffic| (traffic.to_nic, traffic.to_host);
    assert_eq!(both(link.nic_write(64)), (0, 80));
    assert_eq!(both(link.nic_read(64)), (76, 16));
    assert_eq!(both(link.read_from_nic(4)), (16, 16));
}

#[test]
fn boundaries_cut_transfers() {
    let link = link("gen3x16");
    // Across a page: never in one TLP.
    assert_eq!(
        (link.write_tlps(4090, 12), link.read_requests(4090, 12), link.read_completions(4090, 12)),
        (2, 2, 2)
    );
    // 300 bytes from 10 on: up to the boundary at 256, then the rest.
    assert_eq!(link.read_completions(10, 300), 2);
    assert_eq!(link.read_completions(10, 256), 1);
    let old = link.completions(Completions::Boundary);
    assert_eq!(
        (old.read_completions(0, 256), old.read_completions(10, 256), old.read_completions(0, 640)),
        (4, 5, 10)
    );
}

#[test]
fn a_bus_carries_one_tlp_after_another_and_counts_tags() {
    let spec = BusSpec { link: link("gen3x16"), tags: 2, latency_ps: 600_000 };
    let mut bus = Bus::new(spec);
    let step = spec.link.picoseconds(24);
    assert_eq!(bus.request(0, 64), Some(step));
    assert_eq!(bus.request(0, 64), Some(2 * step));
    assert_eq!((bus.request(0, 64), bus.tags_taken()), (None, 2));
    let back = bus.complete(step + spec.latency_ps, 64);
    assert_eq!(back, step + spec.latency_ps + spec.link.picoseconds(84));
    assert_eq!((bus.tags_taken(), bus.totals().refused, bus.totals().read_requests), (1, 1, 2));
    assert!(bus.request(back, 64).is_some());
    bus.write_to_nic(0, 8);
    bus.nic_write(0, 64);
    assert_eq!(bus.totals().bytes, Traffic { to_nic: 84 + 32, to_host: 3 * 24 + 88 });
    assert_eq!(bus.totals().data, Traffic { to_nic: 72, to_host: 64 });
    // A read of more requests than there are tags goes alone; otherwise it would never go.
    let mut small = Bus::new(BusSpec { tags: 1, ..spec });
    assert!(small.request(0, 4096).is_some() && small.request(0, 1).is_none());
    small.complete(0, 4096);
    assert_eq!(small.tags_taken(), 0);
}

#[test]
fn links_print_as_they_parse() {
    for text in ["gen3x16,mps=256,mrrs=512,rcb=64", "gen6x1,mps=4096,mrrs=128,rcb=128,completions=boundary"] {
        assert_eq!(link(text).to_string(), text);
    }
    assert_eq!(link("gen4x8"), link("gen4x8,mps=256,mrrs=512,rcb=64,completions=payload"));
    let wrong = [
        ("gen3x3", "lanes: 3 cannot be: one of 1, 2, 4, 8, 12, 16, 32"),
        ("gen3x", r#"lanes: "" cannot be: one of 1, 2, 4, 8, 12, 16, 32"#),
        ("gen7x8", r#"generation: "7" cannot be: one of 1, 2, 3, 4, 5, 6"#),
        ("genx8", r#"generation: "" cannot be: one of 1, 2, 3, 4, 5, 6"#),
        ("3x16", r#"link: "3x16" cannot be: generation and lanes, such as gen3x16"#),
        ("", r#"link: "" cannot be: generation and lanes, such as gen3x16"#),
        ("gen3x16,mps=200", "mps: 200 cannot be: one of 128, 256, 512, 1024, 2048, 4096"),
        ("gen3x16,mps=+256", r#"mps: "+256" cannot be: one of 128, 256, 512, 1024, 2048, 4096"#),
        ("gen3x16,mrrs=0", "mrrs: 0 cannot be: one of 128, 256, 512, 1024, 2048, 4096"),
        ("gen3x16,rcb=32", "rcb: 32 cannot be: one of 64, 128"),
        ("gen3x16,mps=256,mps=256", r#"link: "mps" cannot be: each key once"#),
        ("gen3x16,colour=1", r#"link: "colour" cannot be: the keys are mps, mrrs, rcb, completions"#),
        (
            "gen3x16,fast",
            r#"link: "fast" cannot be: key=value, where the keys are mps, mrrs, rcb, completions"#,
        ),
        ("gen3x16,completions=x", r#"completions: "x" cannot be: payload or boundary"#),
    ];
    for (text, message) in wrong {
        assert_eq!(text.parse::<Link>().unwrap_err().to_string(), message, "{text}");
    }
}

fn any_link() -> impl Strategy<Value = Link> {
    let sizes = || proptest::sample::select(vec![128u32, 256, 512, 1024, 2048, 4096]);
    let speed = (0usize..6, proptest::sample::select(vec![1u32, 2, 4, 8, 12, 16, 32]));
    (speed, sizes(), sizes(), any::<bool>(), any::<bool>()).prop_map(
        |((generation, lanes), mps, mrrs, rcb, cut)| {
            let link = Link::new(Generation::ALL[generation], lanes).unwrap();
            let link = link.mps(mps).unwrap().mrrs(mrrs).unwrap().rcb(if rcb { 128 } else { 64 }).unwrap();
            link.completions(if cut { Completions::Boundary } else { Completions::Payload })
        },
    )
}

/// Cuts a read one completion at a time, as a root complex would.
fn completions_one_by_one(link: &Link, offset: u64, bytes: u64) -> u64 {
    let (mps, mrrs, rcb) = (link.mps_bytes(), link.mrrs_bytes(), link.rcb_bytes());
    let (mut at, end, mut count) = (offset, offset + bytes, 0);
    while at < end {
        let request_end = (at + u64::from(mrrs)).min(end).min((at / 4096 + 1) * 4096);
        while at < request_end {
            let most = match link.completion_cut() {
                Completions::Payload => at + u64::from(mps),
                Completions::Boundary => at + u64::from(rcb),
            };
            at = if most >= request_end && link.completion_cut() == Completions::Payload {
                request_end
            } else {
                (most / u64::from(rcb) * u64::from(rcb)).min(request_end)
            };
            count += 1;
        }
    }
    count
}

proptest! {
    #[test]
    fn cuts_are_those_of_cutting_one_by_one(link in any_link(), offset in 0u64..8192, bytes in 0u64..20_000) {
        prop_assert_eq!(link.read_completions(offset, bytes), completions_one_by_one(&link, offset, bytes));
        let by_hand = |most: u64| {
            let (mut at, end, mut count) = (offset, offset + bytes, 0);
            while at < end {
                at = (at + most).min(end).min((at / 4096 + 1) * 4096);
                count += 1;
            }
            count
        };
        prop_assert_eq!(link.write_tlps(offset, bytes), by_hand(link.mps_bytes().into()));
        prop_assert_eq!(link.read_requests(offset, bytes), by_hand(link.mrrs_bytes().into()));
    }

    #[test]
    fn more_data_is_more_bytes(link in any_link(), offset in 0u64..4096, bytes in 1u64..20_000) {
        let (less, more) = (link.nic_read_at(offset, bytes - 1), link.nic_read_at(offset, bytes));
        prop_assert!(less.to_nic < more.to_nic && less.to_host <= more.to_host);
        prop_assert!(link.nic_write_at(offset, bytes - 1).to_host < link.nic_write_at(offset, bytes).to_host);
    }

    #[test]
    fn no_read_takes_fewer_bytes_than_its_data(link in any_link(), bytes in any::<u32>()) {
        prop_assert!(link.nic_read(bytes.into()).to_nic >= u64::from(bytes));
        prop_assert!(link.tlp_bits_per_second() < link.raw_bits_per_second());
    }
}

/// Traffic that waits for its turn has not used the link yet: no direction is used for longer than the time
/// that passed.
#[test]
fn bus_is_busy_at_most_for_the_time_passed() {
    let link: Link = "gen3x16".parse().unwrap();
    let mut bus = Bus::new(BusSpec { link, tags: 4, latency_ps: 1000 });
    let one_ps = bus.nic_write(5000, 64) - 5000;
    assert_eq!(bus.busy_ps(5000 + one_ps / 2).to_host, one_ps / 2);
    for _ in 0..9 {
        bus.nic_write(5000, 64);
    }
    assert_eq!(bus.busy_ps(5000), Traffic::default());
    assert_eq!(bus.busy_ps(5000 + 3 * one_ps), Traffic { to_nic: 0, to_host: 3 * one_ps });
    assert_eq!(bus.busy_ps(1_000_000).to_host, 10 * one_ps);
    let there_ps = bus.write_to_nic(2_000_000, 8);
    assert_eq!(bus.busy_ps(3_000_000).to_nic, there_ps - 2_000_000);
}
