//! Any order of calls, against the rules that hold after each.

use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{Completions, TxDevice};
use wharf_devices::wire::WireSpec;
use wharf_testkit::ends::Ends;
use wharf_testkit::threads::TestClock;
use wharf_testkit::{pool, pool_of};

#[derive(Debug, Clone)]
enum Op {
    Send { count: u32, more: bool },
    Flush,
    Receive { budget: usize },
    Reap { budget: usize },
    Wait { ns: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u32..20, any::<bool>()).prop_map(|(count, more)| Op::Send { count, more }),
        1 => Just(Op::Flush),
        4 => (0usize..40).prop_map(|budget| Op::Receive { budget }),
        3 => (0usize..40).prop_map(|budget| Op::Reap { budget }),
        3 => (0u64..20_000).prop_map(|ns| Op::Wait { ns }),
    ]
}

/// The ends, and the state that they must have.
struct Model {
    ends: Ends,
    clock: Arc<TestClock>,
    now_ns: u64,
    ring: usize,
    offered: u32,
    taken: u32,
    rung: bool,
    received: u32,
    completed: u32,
    done: Completions,
}

impl Model {
    fn new(spec: WireSpec, ring: u32, far_frames: u32, far_bytes: u32) -> Self {
        let clock = Arc::new(TestClock::default());
        let spec = spec.clock(clock.clone()).ring(ring).unwrap();
        let ends = Ends::with(&spec, pool(512), pool_of(far_frames, far_bytes));
        let done = Completions::new(64);
        let (offered, taken, received, completed) = (0, 0, 0, 0);
        Self {
            ends,
            clock,
            now_ns: 0,
            ring: ring as usize,
            offered,
            taken,
            rung: true,
            received,
            completed,
            done,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Send { count, more } => self.send(count, more),
            Op::Flush => {
                assert_eq!(self.ends.near.flush(), !self.rung);
                self.rung = true;
            }
            Op::Receive { budget } => {
                for number in self.ends.receive(budget) {
                    assert_eq!(number, self.received, "received in order");
                    self.received += 1;
                }
            }
            Op::Reap { budget } => self.reap(budget),
            Op::Wait { ns } => {
                self.now_ns += ns;
                self.clock.set(self.now_ns);
            }
        }
        assert_eq!(self.ends.near.outstanding() as u32, self.taken - self.completed);
        assert!(self.received <= self.taken);
    }

    fn send(&mut self, count: u32, more: bool) {
        let count = count.min(256 - self.ends.batch.len() as u32);
        self.ends.offer(count);
        self.offered += count;
        let before = self.ends.batch.len();
        let done = self.ends.near.transmit(&mut self.ends.batch, more);
        let taken = before - self.ends.batch.len();
        self.taken += taken as u32;
        self.rung &= taken == 0;
        assert_eq!(done.stopped, self.ends.near.outstanding() == self.ring);
        assert_eq!(done.doorbell, !self.rung && (!more || done.stopped), "rule 5");
        self.rung |= done.doorbell;
        assert!(self.ends.batch.is_empty() || done.stopped, "it leaves frames only when it is full");
    }

    fn reap(&mut self, budget: usize) {
        self.ends.near.reap(budget, false, &mut self.done).unwrap();
        assert!(self.done.failed.is_empty() && self.done.len() <= budget);
        for frame in self.done.sent.frames() {
            let bytes = self.ends.near_pool.region().bytes(frame).unwrap();
            assert_eq!(wharf_testkit::content::read(bytes).1, self.completed, "completed in order");
            self.completed += 1;
        }
        self.ends.from.give(&mut self.done.sent).unwrap();
    }

    /// Lets everything leave.
    fn finish(mut self) {
        while self.received < self.offered || self.completed < self.offered {
            self.apply(&Op::Wait { ns: 1_000_000_000 });
            self.apply(&Op::Send { count: 0, more: false });
            self.apply(&Op::Reap { budget: 64 });
            self.apply(&Op::Receive { budget: 64 });
        }
        self.ends.assert_all_home();
    }
}

/// A case that fails may keep two pool numbers, of which a process has 63: little shrinking.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 128, max_shrink_iters: 20, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn calls_in_any_order_lose_double_and_reorder_nothing(
        ops in prop::collection::vec(op(), 1..120),
        ring in prop::sample::select(vec![2u32, 8, 64]),
        start in prop::sample::select(vec![0u32, u32::MAX, u32::MAX - 60]),
        rate in prop::sample::select(vec![0u64, 1_000_000_000, 7_777_777_777]),
        delay_ns in prop::sample::select(vec![0u64, 5000]),
        far in prop::sample::select(vec![(256u32, 2048u32), (3, 2048), (32, 128)]),
    ) {
        let spec = WireSpec::default().index_start(start).rate(rate).delay(Duration::from_nanos(delay_ns));
        let mut model = Model::new(spec, ring, far.0, far.1);
        ops.iter().for_each(|op| model.apply(op));
        model.finish();
    }
}
