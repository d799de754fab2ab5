//! Frames in a trace.

use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};
use wharf_testkit::{Scratch, pool};
use wharf_tools::trace::TraceFile;

const RECORD_BYTES: u64 = 1016;

/// A device that returns nothing before it is closed: then its first frames as sent, the rest as failed.
#[derive(Default)]
struct Holding {
    held: VecDeque<Frame>,
    is_closed: bool,
    given_back: usize,
}

/// Frames that have left when it is closed.
const LEFT: usize = 3;

impl Notify for Holding {}

impl Device for Holding {
    fn name(&self) -> String {
        "holding".into()
    }

    fn attach(&mut self, _: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.is_closed = true;
        Ok(())
    }
}

impl TxDevice for Holding {
    fn info(&self) -> TxInfo {
        TxInfo { completions: CompletionMode::Real, segments_max: 1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _: bool) -> Transmitted {
        self.held.extend(std::iter::from_fn(|| batch.pop()));
        Transmitted { doorbell: true, stopped: false }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let budget = if self.is_closed { budget } else { 0 };
        for frame in self.held.drain(..budget.min(self.held.len())) {
            self.given_back += 1;
            if self.given_back <= LEFT {
                into.sent.push(frame).unwrap();
            } else {
                into.failed.push((frame, "closed"));
            }
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}

/// Failed frames are not in a trace of sent ones. Frames that come back only once the device is closed are.
#[test]
fn a_trace_of_sent_frames_lacks_failed_ones() {
    let scratch = Scratch::new("trace");
    let file = scratch.file("sent.pcap");
    let mut trace = TraceFile::create(&file).unwrap().around(Box::new(Holding::default())).sent_only();
    let counts = trace.counts();
    let pool = pool(64);
    trace.attach(pool.region().clone()).unwrap();
    let mut cache = pool.cache("test").unwrap();
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    cache.take(&mut batch, 10, 1000).unwrap();
    trace.transmit(&mut batch, false);
    assert_eq!(counts.frames(), 0, "taken, and not sent");
    trace.close().unwrap();
    trace.reap(2, false, &mut done).unwrap();
    trace.reap(64, false, &mut done).unwrap();
    assert_eq!((done.sent.len(), done.failed.len(), counts.frames()), (LEFT, 10 - LEFT, LEFT as u64));
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert_eq!(bytes, 24 + LEFT as u64 * RECORD_BYTES, "the file is whole once all have come back");
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
}
