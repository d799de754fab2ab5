//! Frames of any bytes: the band of a packet, and a receiver's account of it.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_tools::traffic::{Arrival, Arrivals, Check};

fuzz_target!(|bytes: &[u8]| {
    assert!(wharf_core::qdisc::band_of_bytes(bytes) < 3);
    let mut arrivals = Arrivals::default();
    // Twice, and truncated in between: the second is a repeat, or the first was no generated packet.
    for frame in [bytes, &bytes[..bytes.len() / 2], bytes] {
        arrivals.check(frame, Arrival { monotonic_ns: 1 << 40, wall_ns: 1 << 60 });
    }
    let counts = arrivals.counts();
    assert_eq!((arrivals.all().packets, arrivals.stamped().packets), (3, counts.packets));
    assert_eq!(counts.packets + arrivals.unstamped(), 3);
    assert!(counts.packets == 0 || counts.duplicated > 0);
});
