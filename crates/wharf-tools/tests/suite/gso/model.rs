//! Random packets through a `Segmenter` over a faulty device, call by call: every piece leaves in order, every packet comes
//! back once, however little of each call the device takes, and however little memory there is.

use super::kinds::{BUFFER_BYTES, Kind, Leaves, kinds};
use super::plain::{Plain, Seen};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use wharf::testing::{Chance, Fault, FaultCounts, FaultSpec};
use wharf_core::device::{Completions, Device, TxDevice};
use wharf_core::gso::Segmenter;
use wharf_core::pool::{Cache, PagePool};
use wharf_mem::{Batch, Frame, Meta};
use wharf_testkit::packets::{Shape, cut, frame_of};
use wharf_testkit::pool_of;
use wharf_testkit::threads::TestClock;

/// A device, and everything that was given to it.
struct Rig {
    device: Segmenter<Fault<Plain>>,
    seen: Arc<Mutex<Seen>>,
    counts: Arc<FaultCounts>,
    clock: Arc<TestClock>,
    now_ns: u64,
    pool: PagePool,
    cache: Cache,
    batch: Batch,
    done: Completions,
    segments_max: u16,
    /// By index of the first buffer of a packet given and not back: its length, sender, band, and whether it should leave.
    out: HashMap<u32, (u32, u16, u8, bool)>,
    /// Frames due to leave of each packet offered, by index of its first buffer, in order.
    offered: Vec<(u32, Leaves)>,
    /// Frames that should have left.
    expected: Vec<Vec<u8>>,
    failed: u64,
    returned: usize,
}

impl Rig {
    fn new(frames: u32, ring: usize, segments_max: u16, faults: &FaultSpec) -> Self {
        let (pool, clock) = (pool_of(frames, BUFFER_BYTES), Arc::new(TestClock::default()));
        let plain = Plain::new(ring, segments_max);
        let seen = plain.seen.clone();
        let fault = Fault::new(plain, faults).clock(clock.clone());
        let counts = fault.counts();
        let mut device = Segmenter::new(fault, &pool);
        device.attach(pool.region().clone()).unwrap();
        let cache = pool.cache("sender").unwrap();
        let (batch, done) = (Batch::new(64), Completions::new(256));
        Self {
            device,
            seen,
            counts,
            clock,
            now_ns: 0,
            pool,
            cache,
            batch,
            done,
            segments_max,
            out: HashMap::new(),
            offered: Vec::new(),
            expected: Vec::new(),
            failed: 0,
            returned: 0,
        }
    }

    /// Adds a packet to the batch, if there is memory for it.
    fn offer(&mut self, kind: &Kind, band: u8) {
        let packet = kind.packet(self.segments_max);
        if self.batch.room() == 0 {
            return;
        }
        let frame = frame_of(&mut self.cache, &packet.bytes, packet.chunk, packet.meta.as_ref());
        let Some(mut frame) = frame else { return };
        frame.set_sender(u16::from(band) + 100);
        frame.set_band(band);
        self.offered.push((frame.index(), packet.leaves));
        self.batch.push(frame).unwrap();
    }

    /// Notes the packets that the device has taken: all that were before the first one left.
    fn transmit(&mut self, more: bool) {
        let shown: Vec<_> = self
            .batch
            .frames()
            .iter()
            .map(|frame| (frame.index(), frame.len_bytes(), frame.sender(), frame.band()))
            .collect();
        let rang = self.seen.lock().unwrap().doorbells;
        self.device.transmit(&mut self.batch, more);
        assert!(self.seen.lock().unwrap().doorbells - rang <= 1, "one doorbell a call");
        let taken = shown.len() - self.batch.len();
        for ((index, len, sender, band), (offered, leaves)) in
            shown.into_iter().zip(self.offered.drain(..taken))
        {
            assert_eq!(index, offered);
            assert!(self.out.insert(index, (len, sender, band, leaves.is_ok())).is_none());
            self.expected.extend(leaves.unwrap_or_default());
        }
    }

    fn back(&mut self, frame: Frame, reason: Option<&'static str>) {
        let (len, sender, band, leaves) = self.out.remove(&frame.index()).expect("each comes back once");
        assert_eq!((frame.len_bytes(), frame.sender(), frame.band()), (len, sender, band));
        match reason {
            None => assert!(leaves),
            Some(FaultSpec::INJECTED) => assert!(leaves),
            Some("closed") => {}
            Some(reason) => {
                let reasons =
                    ["gso-header", "gso-size", "gso-kind", "too-many-chunks", "unfinished-checksum"];
                assert!(!leaves && reasons.contains(&reason), "{reason}");
            }
        }
        self.failed += u64::from(reason.is_some());
        self.returned += 1;
        self.cache.give_one(frame).unwrap();
    }

    fn reap(&mut self, budget: usize) {
        self.now_ns += 20_000;
        self.clock.set(self.now_ns);
        self.device.reap(budget, false, &mut self.done).unwrap();
        assert!(self.done.len() <= budget);
        while let Some(frame) = self.done.sent.pop() {
            self.back(frame, None);
        }
        while let Some((frame, reason)) = self.done.failed.pop() {
            self.back(frame, Some(reason));
        }
        assert_eq!(self.device.outstanding(), self.out.len());
        let mut shown = std::collections::HashSet::new();
        self.device.visit(&mut |frame| assert!(shown.insert(frame.index()), "shown twice"));
    }

    /// All offered packets go and come back, those inside the device without a further transmit.
    fn finish(&mut self) {
        self.send_all();
        self.check();
    }

    fn send_all(&mut self) {
        for round in 0.. {
            assert!(round < 20_000, "stuck with {} packets in the device", self.out.len());
            if self.batch.is_empty() && self.out.is_empty() {
                break;
            }
            if !self.batch.is_empty() || round == 0 {
                self.transmit(false);
            }
            self.reap(256);
        }
    }

    fn check(&mut self) {
        let seen = self.seen.lock().unwrap();
        let injected = self.counts.of("error") as usize;
        assert_eq!(seen.frames.len() + injected, self.expected.len(), "all that should leave did");
        // Frames leave in order; missing ones failed on purpose.
        let mut expected = self.expected.iter();
        for (bytes, _) in &seen.frames {
            assert!(expected.any(|wanted| wanted == bytes), "another frame, or another order");
        }
        drop(seen);
        let audit = self.pool.audit();
        assert_eq!(audit.out(), 0, "{audit}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Offer(Kind, u8),
    Transmit { more: bool },
    Flush,
    Reap(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (kinds(), 0u8..8).prop_map(|(kind, band)| Step::Offer(kind, band)),
        2 => any::<bool>().prop_map(|more| Step::Transmit { more }),
        1 => Just(Step::Flush),
        2 => (0usize..20).prop_map(Step::Reap),
    ];
    prop::collection::vec(step, 0..80)
}

fn chance(millionths: u32) -> impl Strategy<Value = Chance> {
    prop_oneof![1 => Just(Chance::Never), 1 => (1..millionths).prop_map(Chance::Millionths)]
}

fn faults() -> impl Strategy<Value = FaultSpec> {
    let chances = (
        chance(100_000),
        chance(600_000),
        chance(200_000),
        chance(300_000),
        chance(300_000),
        chance(300_000),
    );
    (any::<u64>(), chances).prop_map(|(seed, (error, short, stall, lost, late, reorder))| {
        let (stall_time, late_time) =
            (std::time::Duration::from_micros(50), std::time::Duration::from_micros(20));
        FaultSpec {
            seed,
            error,
            short,
            stall,
            lost,
            late,
            reorder,
            stall_time,
            late_time,
            ..FaultSpec::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn all_leaves_in_order_and_comes_back_once(
        steps in steps(), faults in faults(),
        frames in prop::sample::select(vec![13u32, 40, 200, 1000]),
        ring in prop::sample::select(vec![1usize, 2, 7, 64, 300]),
        segments_max in prop::sample::select(vec![1u16, 2, 5, 17]),
    ) {
        let mut rig = Rig::new(frames, ring, segments_max, &faults);
        for step in steps {
            match step {
                Step::Offer(kind, band) => rig.offer(&kind, band),
                Step::Transmit { more } => rig.transmit(more),
                Step::Flush => _ = rig.device.flush(),
                Step::Reap(budget) => rig.reap(budget),
            }
        }
        rig.finish();
    }

    /// Closed at any moment, it gives everything back, some of it as failed.
    #[test]
    fn frames_inside_at_the_end_come_back(
        steps in steps(), faults in faults(), frames in 13u32..200, ring in 1usize..20,
    ) {
        let mut rig = Rig::new(frames, ring, 2, &faults);
        for step in steps {
            match step {
                Step::Offer(kind, band) => rig.offer(&kind, band),
                Step::Transmit { more } => rig.transmit(more),
                Step::Flush => _ = rig.device.flush(),
                Step::Reap(budget) => rig.reap(budget),
            }
        }
        rig.device.close().unwrap();
        for _ in 0..1000 {
            rig.reap(256);
        }
        prop_assert_eq!((rig.out.len(), rig.device.outstanding()), (0, 0));
        rig.cache.give(&mut rig.batch).unwrap();
        let audit = rig.pool.audit();
        prop_assert_eq!(audit.out(), 0, "{}", audit);
    }
}

/// Senders have all frames: a packet is cut into its own.
#[test]
fn an_empty_pool_stops_nothing() {
    for (frames, payload, chunk) in [(1, 400, 512), (8, 3500, 512), (13, 6000, 512), (100, 4000, 50)] {
        let mut rig = Rig::new(frames, 64, 17, &FaultSpec::default());
        let shape = Shape { payload, gso_bytes: 100, tcp_options: 0, ..Shape::default() };
        for round in 0..5 {
            rig.offer(&Kind::Super { shape: shape.clone(), chunk }, 0);
            let mut hoard = Batch::new(256);
            let _ = rig.cache.take(&mut hoard, frames as usize, 10);
            rig.send_all();
            rig.cache.give(&mut hoard).unwrap();
            assert_eq!(rig.returned, round + 1, "{frames} frames");
        }
        rig.finish();
        assert_eq!(rig.failed, 0);
    }
}

/// A header was put in front of a full buffer: it is longer than the buffers that its segments see.
#[test]
fn an_empty_pool_cuts_a_packet_whose_first_buffer_grew_and_gives_all_its_buffers_back() {
    let (bytes, meta) = Shape { payload: 2000, gso_bytes: 400, tags: 1, ..Shape::default() }.packet();
    for grown in [4, 14, 64] {
        let first_bytes = BUFFER_BYTES as usize + grown;
        let mut rig =
            Rig::new(1 + (bytes.len() - first_bytes).div_ceil(512) as u32, 64, 4, &FaultSpec::default());
        let region = rig.pool.region().clone();
        for round in 0..3 {
            let mut frame = frame_of(&mut rig.cache, &bytes[grown..first_bytes], 512, None).unwrap();
            region.prepend(&mut frame, grown).unwrap();
            region.bytes_mut(&mut frame).unwrap()[..grown].copy_from_slice(&bytes[..grown]);
            for piece in bytes[first_bytes..].chunks(512) {
                region.link(&mut frame, frame_of(&mut rig.cache, piece, 512, None).unwrap()).unwrap();
            }
            region.set_meta(&mut frame, &meta).unwrap();
            rig.offered.push((frame.index(), Ok(cut(&bytes, &meta))));
            rig.batch.push(frame).unwrap();
            rig.send_all();
            assert_eq!(rig.returned, round + 1);
        }
        rig.finish();
        assert_eq!(rig.failed, 0);
    }
}

/// Several super-packets in one bulk: one call, one doorbell, and plain frames keep their places between them.
#[test]
fn several_in_one_bulk_are_one_doorbell() {
    let mut rig = Rig::new(2000, 1000, 1, &FaultSpec::default());
    let shape = Shape { gso_bytes: 400, ..Shape::default() };
    for _ in 0..5 {
        rig.offer(&Kind::Super { shape: shape.clone(), chunk: 512 }, 0);
        rig.offer(&Kind::Plain { len: 60, stamped: false }, 0);
    }
    rig.transmit(false);
    assert!(rig.batch.is_empty());
    assert_eq!(rig.seen.lock().unwrap().doorbells, 1);
    assert_eq!(rig.seen.lock().unwrap().frames.len(), 5 * (50 + 1));
    assert_eq!(rig.device.outstanding(), 10);
    rig.finish();
}

/// A stamp stays on the pieces: a capture shows when the packet came.
#[test]
fn pieces_keep_the_time() {
    let mut rig = Rig::new(200, 64, 4, &FaultSpec::default());
    let (bytes, mut meta) = Shape { payload: 2000, gso_bytes: 400, ..Shape::default() }.packet();
    meta.time_ns = 42;
    let frame = frame_of(&mut rig.cache, &bytes, 512, Some(&meta)).unwrap();
    rig.offered.push((frame.index(), Ok(cut(&bytes, &meta))));
    rig.batch.push(frame).unwrap();
    rig.finish();
    let seen = rig.seen.lock().unwrap();
    assert_eq!(seen.frames.iter().map(|frame| frame.1).collect::<Vec<_>>(), [42; 5]);
}

/// Each fault has its reason, and the packets beside them go.
#[test]
fn packets_that_cannot_be_segmented_fail_with_a_reason_and_others_pass() {
    let (bytes, meta) = Shape { payload: 2000, gso_bytes: 400, ..Shape::default() }.packet();
    let mut wrong_protocol = bytes.clone();
    wrong_protocol[23] = 1;
    let cases: [(&[u8], Meta, &str); 8] = [
        (&bytes, Meta { gso_bytes: 0, ..meta }, "gso-size"),
        (&bytes, Meta { gso_bytes: 65535, ..meta }, "gso-size"),
        (&bytes, Meta { gso_kind: 3, ..meta }, "gso-kind"),
        (&bytes, Meta { gso_kind: 4, ..meta }, "gso-header"),
        (&bytes[..40], meta, "gso-header"),
        (&wrong_protocol, meta, "gso-header"),
        (&bytes, Meta { gso_bytes: 1900, ..meta }, "too-many-chunks"),
        (
            &bytes[..100],
            Meta { gso_bytes: 0, gso_kind: 0, checksum_start: 99, ..meta },
            "unfinished-checksum",
        ),
    ];
    for (bytes, meta, reason) in cases {
        let mut rig = Rig::new(64, 64, 2, &FaultSpec::default());
        rig.offer(&Kind::Plain { len: 60, stamped: false }, 0);
        let frame = frame_of(&mut rig.cache, bytes, 512, Some(&meta)).unwrap();
        rig.batch.push(frame).unwrap();
        rig.offered.push((rig.batch.frames()[1].index(), Err(())));
        rig.offer(&Kind::Plain { len: 61, stamped: false }, 0);
        rig.transmit(false);
        rig.device.reap(256, false, &mut rig.done).unwrap();
        assert_eq!(rig.done.failed[0].1, reason);
        assert_eq!((rig.done.sent.len(), rig.done.failed.len(), rig.device.outstanding()), (2, 1, 0));
        rig.reap(256);
        rig.finish();
    }
}
