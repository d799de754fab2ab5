//! The path, however it is driven, over a device with each fault and with all of them: nothing is lost, doubled,
//! overtaken or stuck.

use super::rig::{Case, Driver};
use proptest::prelude::*;
use std::time::Duration;
use wharf::testing::{Chance, FaultSpec};
use wharf_testkit::threads::within_a_minute;

const DRIVERS: [Driver; 4] = [Driver::Direct, Driver::Senders, Driver::Poller, Driver::Dedicated];

/// Short times: a test waits for nothing.
fn faults() -> FaultSpec {
    let (stall_time, late_time) = (Duration::from_micros(50), Duration::from_micros(20));
    let freeze_time = Duration::from_micros(200);
    FaultSpec { seed: 7, stall_time, late_time, freeze_time, ..FaultSpec::default() }
}

fn case(driver: Driver, ring: Option<u32>, faults: FaultSpec) -> Case {
    let senders = if driver == Driver::Direct { 1 } else { 3 };
    Case { driver, ring, senders, packets: 300, bands: false, cut_at: None, frames: 128, faults }
}

/// Sets one fault of a specification.
type Set = fn(&mut FaultSpec, Chance);

const EACH: [(&str, Set); 9] = [
    ("error", |faults, chance| faults.error = chance),
    ("short", |faults, chance| faults.short = chance),
    ("stall", |faults, chance| faults.stall = chance),
    ("lost", |faults, chance| faults.lost = chance),
    ("late", |faults, chance| faults.late = chance),
    ("reorder", |faults, chance| faults.reorder = chance),
    ("alloc", |faults, chance| faults.alloc = chance),
    ("freeze", |faults, chance| faults.freeze = chance),
    ("half", |faults, chance| faults.half = chance),
];

/// Each fault alone, always, as far as anything can get through then, and now and then.
fn alone(driver: Driver) {
    for (name, set) in EACH {
        for ring in [None, Some(2), Some(64)] {
            for chance in [Chance::Millionths(100_000), Chance::Every(1)] {
                let mut faults = faults();
                set(&mut faults, chance);
                // Memory that is never there is waited for without end, rightly.
                if (name, chance) != ("alloc", Chance::Every(1)) {
                    println!("{driver:?} over a ring of {ring:?}: {name} {chance:?}");
                    within_a_minute(move || case(driver, ring, faults).run());
                }
            }
        }
    }
}

#[test]
fn one_sender_that_owns_its_path_survives_each_fault() {
    alone(Driver::Direct);
}

#[test]
fn senders_that_drive_the_path_themselves_survive_each_fault() {
    alone(Driver::Senders);
}

#[test]
fn senders_beside_a_poller_survive_each_fault() {
    alone(Driver::Poller);
}

#[test]
fn senders_of_a_dedicated_owner_survive_each_fault() {
    alone(Driver::Dedicated);
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        3 => Just(Chance::Never),
        3 => (1u32..300_000).prop_map(Chance::Millionths),
        1 => (1u64..20).prop_map(Chance::Every),
    ]
}

fn any_faults() -> impl Strategy<Value = FaultSpec> {
    let chances = prop::array::uniform8(chance());
    let alloc = prop_oneof![Just(Chance::Never), (1u32..500_000).prop_map(Chance::Millionths)];
    let set = |(seed, chances, alloc): (u64, [Chance; 8], Chance)| {
        let [error, short, stall, lost, late, reorder, freeze, half] = chances;
        FaultSpec { seed, error, short, stall, lost, late, reorder, alloc, freeze, half, ..faults() }
    };
    (any::<u64>(), chances, alloc).prop_map(set)
}

prop_compose! {
    fn any_case()(
        driver in prop::sample::select(DRIVERS.to_vec()),
        ring in prop::sample::select(vec![None, Some(2), Some(8), Some(256)]),
        senders in 1u32..5,
        packets in 1u32..400,
        bands in any::<bool>(),
        cut_at in prop::option::weighted(0.3, 0u64..600),
        frames in prop::sample::select(vec![33u32, 64, 512]),
        faults in any_faults(),
    ) -> Case {
        let direct = driver == Driver::Direct;
        // A one-sender path ends with its device, and frames on a wire end with it.
        let cut_at = cut_at.filter(|_| !direct || ring.is_none());
        let senders = if direct { 1 } else { senders };
        Case { driver, ring, senders, packets, bands, cut_at, frames, faults }
    }
}

/// A case that hangs takes a minute: no shrinking. A failed case is printed whole, with its seed.
fn config() -> ProptestConfig {
    let cases = std::env::var("WHARF_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { cases, max_shrink_iters: 0, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_path_survives_all_faults_together(case in any_case()) {
        within_a_minute(move || case.run());
    }
}
