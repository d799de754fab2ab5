//! `verbs` on a library that lies in every completion: no panic, no frame lost, no byte of others touched. The input is a run: a byte that
//! says what happens, and the bytes that it takes.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_core::device::{Completions, Device, Notify, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::PagePool;
use wharf_mem::Batch;
use wharf_verbs::fake::{FakeDevice, Lie, library};
use wharf_verbs::{PeerAddress, Verbs, VerbsOptions};

const RING_FRAMES: u32 = 16;

/// The rest of a run.
struct Run<'a>(&'a [u8]);

impl Run<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte().unwrap_or(0)))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut run = Run(bytes);
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
    let peer = PeerAddress { gid, queue_pair: Some(9) };
    // One that does not receive opens no port of its own: runs side by side would have the same one.
    let receives = run.byte().unwrap_or(0) & 1 == 1;
    let options = VerbsOptions { peer: Some(peer), ring_frames: RING_FRAMES, receives, ..VerbsOptions::default() };
    let fake = FakeDevice::new(gid);
    let first = if run.byte().unwrap_or(0) & 1 == 1 { u32::MAX - 5 } else { 0 };
    let Ok(mut device) = Verbs::open_by(library(), &fake.name(), options, first) else {
        fake.forget();
        return;
    };
    let pool = PagePool::builder().frames(128).build().unwrap();
    device.attach(pool.region().clone()).unwrap();
    let mut cache = pool.cache("fuzz").unwrap();
    let (mut batch, mut done, mut got) = (Batch::new(64), Completions::new(64), Batch::new(64));
    while let Some(step) = run.byte() {
        match step % 8 {
            0 => {
                let count = usize::from(step >> 4).min(batch.room());
                let _ = cache.take(&mut batch, count, 14 + u32::from(run.byte().unwrap_or(0)));
                device.transmit(&mut batch, step & 8 != 0);
            }
            1 => fake.complete(usize::from(step >> 3)),
            2 => {
                let route = std::array::from_fn(|_| run.byte().unwrap_or(0));
                fake.receive(&route, &run.0[..run.0.len().min(usize::from(step))], run.number());
            }
            3 => {
                let id = if step & 8 != 0 { u64::from(first.wrapping_add(run.number() & 31)) } else { u64::from(run.number()) << (step >> 4) };
                let (status, len_bytes) = (i32::from(run.byte().unwrap_or(0)) % 24, run.number());
                let lie = Lie { id, status, len_bytes, source_queue_pair: run.number(), has_route_header: step & 16 != 0 };
                fake.inject(step & 32 != 0, lie);
            }
            4 => drop(device.arm()),
            5 => fake.refuse(usize::from(step >> 3), 12),
            6 if step > 250 => fake.remove(),
            6 => fake.set_port(step & 8 != 0),
            _ => drop(device.flush()),
        }
        let _ = device.reap(64, false, &mut done);
        let _ = device.receive(&mut cache, &mut got, usize::from(step >> 2));
        for frame in got.frames() {
            assert!(pool.region().bytes(frame).unwrap().len() >= 14);
        }
        cache.give(&mut got).unwrap();
        cache.give(&mut done.sent).unwrap();
        done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
        assert!(device.outstanding() <= RING_FRAMES as usize);
    }
    let _ = close_receiver(&mut device, &mut cache);
    let _ = device.reap(64, true, &mut done);
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    cache.give(&mut batch).unwrap();
    fake.forget();
    drop(cache);
    assert_eq!(pool.audit().out(), 0);
});
