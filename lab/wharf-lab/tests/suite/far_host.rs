//! The far host of TCP streams: the times at which its acknowledgements leave.

use wharf_lab::models::linux_qdisc::far::{Costs, FarHost};

const COSTS: Costs = Costs {
    interrupt_ns: 2000,
    receive_ns: 1000,
    wake_ns: 500,
    switch_ns: 1500,
    read_ns: 600,
    packet_ns: 100,
};

#[test]
fn sleeping_process_is_woken_and_waiting_read_takes_more() {
    let mut far = FarHost::new(COSTS, 2, 2);
    // Interrupt, two packets, waking; the switch, a call, two packets.
    assert_eq!(far.receives(0, 2, 1000), 1000 + 4500 + 1500 + 600 + 200);
    // Before that process has begun: no call, no interrupt, since the softirq still runs.
    assert_eq!(far.receives(0, 1, 5000), 7900);
    // It reads: another call, without waking.
    assert_eq!(far.receives(0, 1, 6500), 7900 + 600 + 100);
}

#[test]
fn softirqs_take_the_first_processor_from_its_process() {
    let mut far = FarHost::new(COSTS, 2, 2);
    assert_eq!(far.receives(1, 1, 1000), 1000 + 3500 + 1500 + 600 + 100);
    far.receives(0, 4, 10_000);
    assert_eq!(far.receives(1, 1, 10_000), 16_500 + 1500 + 1500 + 700, "behind the other's packets");
}
