//! The modelled NICs and the planner's arithmetic, independent of each other, put the same bytes on the bus.

use wharf_plan::nics::{Choice, Description, ONE};
use wharf_plan::pcie::BusSpec;
use wharf_plan::plan::{Direction, Load, Question, plan};
use wharf_sim::engine::Random;
use wharf_sim::nic::cx5::compress::Compress;
use wharf_sim::nic::cx5::half::SELECTED;
use wharf_sim::nic::cx5::send_half::Spec;
use wharf_sim::nic::cx5::setup::{Setup, build};
use wharf_sim::nic::machine::{CoreCosts, Job, Totals};
use wharf_sim::nic::port::{Arrivals, PortCosts};
use wharf_sim::nic::receive::ReceiveCosts;
use wharf_sim::nic::send::SendCosts;

const LINK: &str = "gen3x16";

/// Returns the planner's hundredths of a byte to the NIC and to the host.
fn planned(direction: Direction, features: &[(&str, bool)], bytes: u32) -> [u64; 2] {
    let features = features.iter().map(|(name, on)| (name.to_string(), *on)).collect();
    let question = Question {
        load: Load::one_size(bytes),
        cores: 4,
        direction,
        target: None,
        link: Some(LINK.parse().unwrap()),
        choice: Choice { features, ..Choice::default() },
    };
    let plan = plan(&Description::built_in("cx5").unwrap().unwrap(), &question).unwrap();
    let cost = &plan.outcomes[direction as usize].cost;
    [cost.to_nic_bytes, cost.to_host_bytes].map(|bytes| (u128::from(bytes) * 100 / u128::from(ONE)) as u64)
}

/// Returns those of the model.
fn measured(bytes: u32, per_doorbell: Option<usize>, multi: bool, session_max: Option<u32>) -> [u64; 2] {
    let sends = per_doorbell.is_some();
    let job = per_doorbell.map_or(Job::Drop, |per_doorbell| Job::Send { len_bytes: bytes, per_doorbell });
    let arrivals = match sends {
        true => Arrivals::none(),
        false => Arrivals::at_wire_rate(vec![(bytes, 1)], 4, 80, 20, Random::new(1)),
    };
    let send = SendCosts {
        entry_ps: 0,
        fetch_bytes: 512,
        fetches: 4,
        wire_ps_per_byte: 80,
        wire_overhead_bytes: 20,
        ahead_ps: 2_000_000,
    };
    let packet_ps = if sends { 40_000 + u64::from(bytes) * 400 } else { 5_000 };
    let setup = Setup {
        queues: 4,
        spec: Spec {
            log_send_blocks: 10,
            log_receive: 10,
            xdp_tx_mpwqe: multi,
            inline_from: None,
            completion_each: false,
        },
        rx_cqe_compress: session_max.map(|session_max| Compress { selected: SELECTED, session_max }),
        port: PortCosts {
            bus: BusSpec { link: LINK.parse().unwrap(), tags: 256, latency_ps: 600_000 },
            send,
            receive: ReceiveCosts {
                buffer_bytes: 1 << 17,
                fetch_bytes: 512,
                keep_ps: 1_000_000_000,
                posted_packets: 1,
            },
        },
        arrivals,
        job,
        // Slow enough that rings are never full, so that entries and doorbells have their intended size.
        cores: CoreCosts { poll_ps: 50_000, packet_ps, wake_ps: 100_000 },
    };
    let mut machine = build(setup).unwrap();
    let before = machine.run(100_000_000).unwrap();
    // Bursts in flight at both ends weigh less the longer it takes.
    let until_ps = 1_000_000_000 + u64::from(bytes) * 10_000_000;
    let after = machine.run(until_ps).unwrap();
    machine.end(until_ps).unwrap();
    let packets = |totals: &Totals| if sends { totals.departed } else { totals.arrived.written };
    let count = packets(&after) - packets(&before);
    let per = |of: fn(&Totals) -> u64| (of(&after) - of(&before)) * 100 / count;
    [per(|totals| totals.bus.bytes.to_nic), per(|totals| totals.bus.bytes.to_host)]
}

#[test]
fn the_same_bytes_on_the_bus() {
    use Direction::{Rx, Tx};
    let multi: &[(&str, bool)] = &[("xdp_tx_mpwqe", true)];
    let compress: &[(&str, bool)] = &[("rx_cqe_compress", true)];
    for bytes in [64, 128, 300, 594, 1518] {
        let mut cases = vec![
            (planned(Tx, &[], bytes), measured(bytes, Some(32), false, None)),
            (planned(Tx, multi, bytes), measured(bytes, Some(58), true, None)),
            (planned(Rx, &[], bytes), measured(bytes, None, false, None)),
        ];
        // Longer packets fill the wire before the bus: nothing waits, so that nothing is compressed.
        if bytes == 64 {
            cases.push((planned(Rx, compress, bytes), measured(bytes, None, false, Some(64))));
        }
        for (planned, measured) in cases {
            for (planned, measured) in planned.into_iter().zip(measured) {
                // Transfers in flight at both ends, and entries that end with a ring: half a percent, half a
                // byte.
                assert!(
                    planned.abs_diff(measured) <= (planned / 200).max(50),
                    "{bytes}: {planned} {measured}"
                );
            }
        }
    }
}
