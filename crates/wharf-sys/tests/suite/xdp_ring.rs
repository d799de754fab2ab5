//! Rings of AF_XDP in memory of the test's own: both ends are here.

use wharf_sys::xdp::{Consumer, Producer, Shared};

fn both(entries: u32, start: u32) -> (Producer<u64>, Consumer<u64>, Shared<u64>) {
    let shared = Shared::own(entries, start).unwrap();
    (Producer::new(shared.clone()), Consumer::new(shared.clone()), shared)
}

#[test]
fn entries_arrive_once_and_in_order_as_indices_wrap() {
    for start in [0, u32::MAX - 3, u32::MAX, 1 << 31] {
        let (mut producer, mut consumer, _) = both(8, start);
        let (mut put, mut taken) = (0u64, 0u64);
        for round in 0..100u64 {
            for _ in 0..=round % 9 {
                put += u64::from(producer.put(put));
            }
            producer.publish();
            assert!(put - taken <= 8);
            for _ in 0..=round % 5 {
                if let Some(entry) = consumer.take() {
                    assert_eq!(entry, taken);
                    taken += 1;
                }
            }
            consumer.release();
            assert_eq!(producer.waiting(), (put - taken) as u32);
            assert_eq!(producer.room(), 8 - (put - taken) as u32);
        }
        assert!(taken > 200);
    }
}

#[test]
fn entries_put_and_taken_in_bulk_stay_in_order() {
    for start in [0, u32::MAX - 3] {
        let (mut producer, mut consumer, _) = both(8, start);
        let (mut put, mut taken) = (0u64, 0u64);
        for round in 0..100u64 {
            let before = producer.next();
            producer.put_all(put..put + round % 11);
            let count = producer.next().wrapping_sub(before);
            assert_eq!(u64::from(count), (round % 11).min(8 - (put - taken)));
            put += u64::from(count);
            producer.publish();
            let most = taken + round % 7 + 1;
            consumer.take_while(|entry| {
                assert_eq!(entry, taken);
                taken += 1;
                taken < most
            });
            assert_eq!(taken, most.min(put));
            consumer.release();
            producer.room();
        }
        assert!(taken > 200);
    }
}

#[test]
fn an_entry_is_seen_once_published_and_kept_until_released() {
    let (mut producer, mut consumer, _) = both(2, u32::MAX);
    assert!(producer.put(1) && producer.put(2) && !producer.put(3));
    assert_eq!(consumer.take(), None);
    producer.publish();
    assert_eq!((consumer.ready(), consumer.take()), (2, Some(1)));
    assert!(!producer.put(3), "taken, and not released");
    consumer.release();
    assert!(producer.put(3));
    producer.publish();
    assert_eq!((consumer.take(), consumer.take(), consumer.take()), (Some(2), Some(3), None));
}

#[test]
fn an_index_out_of_range_gets_no_more_than_the_ring() {
    let (mut producer, mut consumer, shared) = both(4, 0);
    assert!(producer.put(7));
    // Another two over the same memory move its indices.
    let (mut other_producer, mut other_consumer) = (Producer::new(shared.clone()), Consumer::new(shared));
    for _ in 0..64 {
        assert!(other_producer.put(1) && other_producer.put(2));
        other_producer.publish();
        assert_eq!((other_consumer.take(), other_consumer.take()), (Some(1), Some(2)));
        other_consumer.release();
        assert_eq!((producer.room(), producer.put(8)), (0, false), "more taken than put");
    }
    assert_eq!(consumer.ready(), 4);
    assert_eq!(std::iter::from_fn(|| consumer.take()).take(100).count(), 100, "the caller bounds it");
}

#[test]
fn an_entry_that_was_put_is_read_again() {
    let (mut producer, _, shared) = both(4, u32::MAX - 1);
    for address in [10, 11, 12] {
        producer.put(address);
    }
    assert_eq!((producer.entry(u32::MAX - 1), producer.entry(0), producer.next()), (10, 12, 1));
    assert!(!producer.needs_wakeup());
    shared.set_needs_wakeup(true);
    assert!(producer.needs_wakeup());
}
