//! Adapters that do what chance says, in every descriptor and register: the driver survives each, gives back each frame
//! once, and leaves frames that are not lent alone. `WHARF_HOSTILE=2000 cargo test -p wharf-intel --test suite
//! chance`.

use crate::model::{Model, Words};
use crate::traffic::{end, opened, options, packets};
use wharf_core::device::{Completions, Device, Notify, RxDevice, TxDevice};
use wharf_core::pool::PagePool;
use wharf_core::random::SplitMix64;
use wharf_intel::e1000::E1000;
use wharf_intel::family::{Family, RingRegisters};
use wharf_intel::igb::Igb;
use wharf_mem::{Batch, Meta};
use wharf_testkit::content::read;

const RING: u32 = 64;

/// Writes nonsense into some descriptors of a ring.
fn scribble<F: Words>(model: &Model, ring: RingRegisters, chance: &mut SplitMix64) {
    for _ in 0..chance.below(8) {
        let place = chance.below(RING.into()) as u32;
        let [first, second] = model.descriptor(ring, place);
        let word = match chance.below(5) {
            0 => chance.draw(),
            1 => u64::MAX,
            2 => F::arrived(chance.below(1700), chance.below(3) > 0),
            3 => second | F::TX_DONE,
            _ => second ^ 1 << chance.below(64),
        };
        model.write_back(ring, place, [if chance.below(4) == 0 { chance.draw() } else { first }, word]);
    }
}

fn lie<F: Family + Words>(model: &Model, chance: &mut SplitMix64) {
    if model.is_out() {
        return;
    }
    scribble::<F>(model, F::rx_ring(0), chance);
    scribble::<F>(model, F::tx_ring(0), chance);
    let rings = [F::rx_ring(0), F::tx_ring(0)];
    let ring = rings[chance.below(2) as usize];
    match chance.below(20) {
        0 => model.set_link(chance.below(2) == 0),
        1 => model.set(ring.head, chance.draw() as u32),
        2 => model.set(ring.tail, chance.draw() as u32),
        // Missed frames.
        3 => model.set(0x4010, chance.draw() as u32),
        4 if chance.below(50) == 0 => model.pull_out(),
        _ => {}
    }
}

/// Work that is asked of the adapter: it makes sense seldom.
fn any_meta(chance: &mut SplitMix64) -> Meta {
    Meta {
        gso_bytes: if chance.below(2) == 0 { 0 } else { chance.draw() as u16 },
        gso_kind: chance.below(6) as u8,
        needs_checksum: chance.below(2) == 0,
        checksum_start: chance.below(1600) as u16,
        checksum_offset: chance.below(20) as u16,
        time_ns: 0,
    }
}

fn survives<F: Family + Words>(seed: u64) {
    let mut chance = SplitMix64::new(seed + 1);
    let pool = PagePool::builder().frames(512).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let mut kept = packets(&mut cache, &region, 0..16);
    let (model, mut port) =
        opened::<F>(&pool, &options(RING, if chance.below(2) == 0 { 1500 } else { 9000 }));
    let (mut to, mut done, mut number) = (Batch::new(64), Completions::new(64), 16);
    if seed % 2 == 1 {
        model.lie(seed + 1);
    }
    for _ in 0..300 {
        match chance.below(6) {
            0 | 1 => {
                let count = chance.below(12) as u32;
                let mut batch = packets(&mut cache, &region, number..number + count);
                number += count;
                for frame in batch.frames_mut() {
                    if chance.below(4) == 0 {
                        region.set_meta(frame, &any_meta(&mut chance)).unwrap();
                    }
                }
                batch.refresh();
                port.transmit(&mut batch, chance.below(2) == 0);
                cache.give(&mut batch).unwrap();
            }
            2 => drop(port.flush()),
            3 => {
                let _ = port.reap(1 + chance.below(64) as usize, false, &mut done);
                cache.give(&mut done.sent).unwrap();
                done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
            }
            4 => {
                let _ = port.receive(&mut cache, &mut to, 1 + chance.below(32) as usize);
                to.frames().iter().for_each(|frame| {
                    let bytes: usize = region.chunks(frame).unwrap().map(<[u8]>::len).sum();
                    assert_eq!(bytes, frame.len_bytes() as usize);
                });
                cache.give(&mut to).unwrap();
            }
            _ => {
                let _ = (port.arm(), port.link());
                port.disarm();
            }
        }
        lie::<F>(&model, &mut chance);
    }
    for (at, frame) in kept.frames().iter().enumerate() {
        assert_eq!(read(region.bytes(frame).unwrap()), (1, at as u32), "seed {seed}");
    }
    cache.give(&mut kept).unwrap();
    end(port, &model, cache, &pool);
}

#[test]
fn an_adapter_that_lies_by_chance_costs_no_frame() {
    let seeds = std::env::var("WHARF_HOSTILE").ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    for seed in 0..seeds {
        survives::<E1000>(seed);
        survives::<Igb>(seed);
    }
}
