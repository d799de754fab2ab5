use super::{Key, Prefixes};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Addresses that share bits often: few different bytes.
fn addresses() -> impl Strategy<Value = u32> {
    proptest::collection::vec(prop_oneof![Just(0_u8), Just(10), Just(255), any::<u8>()], 4)
        .prop_map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

type Model<K> = BTreeMap<(K, u8), u32>;

fn best<K: Key>(model: &Model<K>, key: K, below: u8) -> Option<(u8, u32)> {
    (0..below).rev().find_map(|len| model.get(&(key.first(len), len)).map(|value| (len, *value)))
}

/// Applies changes to the table and to a model, and compares each answer. `keep` clones the table before,
/// which must not change.
fn compare<K: Key + 'static>(changes: &[(K, u8, Option<u32>)], keys: &[K]) {
    let (mut table, mut model, mut kept) = (Prefixes::default(), Model::new(), Vec::new());
    for (at, (key, len, value)) in changes.iter().enumerate() {
        if at % 97 == 0 {
            kept.push((table.clone(), model.clone()));
        }
        let place = (key.first(*len), *len);
        let (old, expected) = match value {
            Some(value) => (table.insert(*key, *len, *value), model.insert(place, *value)),
            None => (table.remove(*key, *len), model.remove(&place)),
        };
        assert_eq!(old, expected);
        assert_eq!(table.get(place.0, *len), model.get(&place).copied());
    }
    kept.push((table.clone(), model.clone()));
    table.compact();
    kept.push((table, model));
    for (table, model) in &kept {
        assert_eq!(table.count(), model.len());
        for key in keys.iter().chain(changes.iter().map(|(key, _, _)| key)) {
            let found = table.longest(*key).map(|found| (found.len(), found.value()));
            assert_eq!(found, best(model, *key, K::BITS + 1), "{key:?}");
            if let Some((len, _)) = found {
                let shorter = table.shorter(*key, len).map(|found| (found.len(), found.value()));
                assert_eq!(shorter, best(model, *key, len), "shorter than {len} of {key:?}");
            }
        }
    }
}

fn value() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![4 => (0..1000_u32).prop_map(Some), 1 => Just(None)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_longest_prefix_is_the_models(
        changes in proptest::collection::vec((addresses(), 0..=32_u8, value()), 1..600),
        keys in proptest::collection::vec(addresses(), 100),
    ) {
        compare(&changes, &keys);
    }

    #[test]
    fn so_it_is_of_ipv6(
        changes in proptest::collection::vec(((addresses(), addresses(), addresses()), 0..=128_u8, value()), 1..600),
        keys in proptest::collection::vec((addresses(), addresses(), addresses()), 100),
    ) {
        let wide = |(a, b, c): (u32, u32, u32)| u128::from(a) << 96 | u128::from(b) << 64 | u128::from(c);
        let changes: Vec<_> = changes.into_iter().map(|(key, len, value)| (wide(key), len, value)).collect();
        let keys: Vec<_> = keys.into_iter().map(wide).collect();
        compare(&changes, &keys);
    }

    /// Prefixes of at most eight bits more than a slot make maps: with few values, many and wide ones, and
    /// a split if they are too many.
    #[test]
    fn close_prefixes_are_the_models(
        changes in proptest::collection::vec((any::<u16>(), 16..=25_u8, value()), 1..500),
        widest in prop_oneof![Just(200_u32), Just(60_000), Just(super::VALUES_MAX - 1500)],
    ) {
        let low = |low: u16| 10 << 24 | u32::from(low) << 4;
        let wide = |value: u32| if value < 300 { value % 50 } else { widest + value };
        let changes: Vec<_> = changes.iter().map(|(key, len, value)| (low(*key), *len, value.map(wide))).collect();
        let keys: Vec<_> = (0..=u16::MAX).step_by(997).map(low).collect();
        compare(&changes, &keys);
        let v6 = |key: u32| u128::from(key) << 96;
        let keys: Vec<_> = keys.into_iter().map(v6).collect();
        compare(&changes.iter().map(|(key, len, value)| (v6(*key), *len, *value)).collect::<Vec<_>>(), &keys);
    }

    /// Many prefixes in one place make splits within splits.
    #[test]
    fn crowded_prefixes_are_the_models(low in proptest::collection::vec((any::<u16>(), 112..=128_u8, value()), 200..600), far in any::<u128>()) {
        let mut changes: Vec<_> = low.iter().map(|(low, len, value)| (far & !0xffff | u128::from(*low), *len, *value)).collect();
        changes.push((far ^ 1 << 100, 77, Some(7)));
        changes.push((0, 0, Some(8)));
        compare(&changes, &[far, !far, 0, u128::MAX]);
    }
}
