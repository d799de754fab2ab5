//! The ends of what an adapter can do: the longest and the shortest frames, no carrier from the start, and drops until the end.

use crate::model::{Model, Words};
use crate::traffic::{end, opened, options, packets};
use wharf_core::device::{Completions, Device, DeviceError, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_intel::Port;
use wharf_intel::e1000::E1000;
use wharf_intel::family::Family;
use wharf_intel::igb::Igb;
use wharf_mem::{Batch, Meta};

/// Missed packets, which the adapter counts until it is reset.
const MPC: u32 = 0x4010;

fn pool(frame_bytes: u32) -> PagePool {
    PagePool::builder().frames(256).frame_bytes(frame_bytes).build().unwrap()
}

fn give_failed(cache: &mut Cache, done: &mut Completions) -> Vec<&'static str> {
    let give = |(frame, reason)| {
        cache.give_one(frame).unwrap();
        reason
    };
    done.failed.drain(..).map(give).collect()
}

/// A super-packet of TCP over IPv6 with so many bytes behind the IP header, in one buffer. Returns its length if it has left.
fn long<F: Family + Words>(bytes_behind: u16) -> Option<usize> {
    let pool = pool(131_072);
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    let (mut batch, mut one, mut done) = (Batch::new(4), Batch::new(1), Completions::new(8));
    assert_eq!(cache.take(&mut one, 1, 14 + 40 + u32::from(bytes_behind)).unwrap(), 1);
    let mut frame = one.pop().unwrap();
    let bytes = region.bytes_mut(&mut frame).unwrap();
    bytes[..86].fill(0);
    bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    bytes[18..20].copy_from_slice(&bytes_behind.to_be_bytes());
    bytes[20] = 6;
    bytes[54 + 12] = 8 << 4;
    let asks = Meta { gso_bytes: 1428, gso_kind: 4, needs_checksum: true, ..Meta::default() };
    region.set_meta(&mut frame, &Meta { checksum_start: 54, checksum_offset: 16, ..asks }).unwrap();
    batch.push(frame).unwrap();
    port.transmit(&mut batch, false);
    let sent = model.send_all::<F>().first().map(Vec::len);
    port.reap(8, false, &mut done).unwrap();
    let refused = if sent.is_some() { vec![] } else { vec!["super-packet"] };
    assert_eq!((done.sent.len(), give_failed(&mut cache, &mut done)), (sent.iter().len(), refused));
    cache.give(&mut done.sent).unwrap();
    end(port, &model, cache, &pool);
    sent
}

#[test]
fn a_super_packet_longer_than_a_descriptor_can_say_is_refused_whole() {
    assert_eq!([long::<E1000>(65_535), long::<Igb>(65_535)], [None; 2]);
}

#[test]
fn a_super_packet_longer_than_a_descriptor_may_have_is_split() {
    assert_eq!([long::<E1000>(60_000), long::<Igb>(60_000)], [Some(60_054); 2]);
}

fn padded<F: Family + Words>() {
    let pool = pool(2048);
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    for len_bytes in 15..=61 {
        let mut one = Batch::new(1);
        cache.take(&mut one, 1, 100).unwrap();
        let mut frame = one.pop().unwrap();
        region.bytes_mut(&mut frame).unwrap().fill(len_bytes as u8);
        region.set_len(&mut frame, len_bytes).unwrap();
        batch.push(frame).unwrap();
    }
    port.transmit(&mut batch, false);
    for (sent, len_bytes) in model.send_all::<F>().iter().zip(15_usize..) {
        assert_eq!(sent.len(), len_bytes.max(60), "{}", F::NAME);
        let (given, padding) = sent.split_at(len_bytes);
        assert!(given.iter().all(|&byte| byte == len_bytes as u8) && padding.iter().all(|&byte| byte == 0));
    }
    port.reap(64, false, &mut done).unwrap();
    let lengths: Vec<u32> = done.sent.frames().iter().map(|frame| frame.len_bytes()).collect();
    assert_eq!(lengths, (15..=61).collect::<Vec<u32>>(), "each is counted by its own length");
    cache.give(&mut done.sent).unwrap();
    end(port, &model, cache, &pool);
}

#[test]
fn short_frames_are_padded_with_zeros_before_the_adapter_sees_them() {
    padded::<E1000>();
    padded::<Igb>();
}

#[test]
fn frames_fail_from_the_start_without_a_carrier_and_leave_once_it_is_there() {
    let pool = pool(2048);
    let mut cache = pool.cache("test").unwrap();
    let model = Model::new();
    model.set_link(false);
    let opened = Port::<Igb, Model>::open("test", model.clone(), &options(64, 1500));
    let mut port = opened.unwrap().pop().unwrap();
    port.attach(pool.region().clone()).unwrap();
    let mut batch = packets(&mut cache, pool.region(), 0..10);
    assert!(!port.transmit(&mut batch, false).doorbell, "frames went to an adapter that keeps them");
    let mut done = Completions::new(64);
    assert!(matches!(port.reap(64, false, &mut done), Err(DeviceError::Down { .. })));
    assert_eq!(give_failed(&mut cache, &mut done), ["link-down"; 10]);
    model.set_link(true);
    assert!(port.link().unwrap().is_ok());
    let mut batch = packets(&mut cache, pool.region(), 10..20);
    assert!(port.transmit(&mut batch, false).doorbell);
    assert_eq!(model.send_all::<Igb>().len(), 10);
    port.reap(64, false, &mut done).unwrap();
    assert_eq!(done.sent.len(), 10);
    cache.give(&mut done.sent).unwrap();
    end(port, &model, cache, &pool);
}

#[test]
fn drops_since_the_last_look_are_counted_at_the_end() {
    let pool = pool(2048);
    let cache = pool.cache("test").unwrap();
    let (model, mut port) = opened::<E1000>(&pool, &options(64, 1500));
    model.set(MPC, 7);
    port.close().unwrap();
    let mut count = 0;
    port.drops(&mut |reason, drops| count += if reason == "ring-full" { drops } else { 0 });
    assert_eq!(count, 7);
    end(port, &model, cache, &pool);
}
