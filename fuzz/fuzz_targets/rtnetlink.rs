//! Messages of rtnetlink of any bytes: every walk through them ends, nothing panics, and lookups in what they made agree with a cache.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;
use wharf_net::{Cache, Query, Tables};

fuzz_target!(|bytes: &[u8]| {
    let tables = Tables::replay(bytes);
    let mut cache = Cache::new(tables.clone());
    let near: Option<[u8; 4]> = bytes.last_chunk().copied();
    let addresses = [[8, 8, 8, 8], [20, 1, 1, 1], [10, 2, 0, 7], [224, 0, 0, 5], near.unwrap_or_default()];
    let v6 = ["2001:db8::1", "fe80::1", "ff02::1"].map(|text| text.parse::<IpAddr>().unwrap());
    for to in addresses.map(IpAddr::from).into_iter().chain(v6) {
        for query in [Query::to(to), Query::to(to).from([10, 2, 0, 1].into()).mark(7).output(2), Query::to(to).flow(9)] {
            assert_eq!(cache.lookup(&query).cloned(), tables.lookup(&query), "{query:?}");
        }
    }
});
