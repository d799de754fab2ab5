//! A device that a test controls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};

/// A test's controls of a [`Gate`], and its records.
#[derive(Debug, Default)]
pub struct Control {
    /// Frames that may still complete.
    pub allowed: AtomicUsize,
    /// Most frames that a call takes; 0 for no bound.
    pub take_max: AtomicUsize,
    /// Completions to invent, of frames that were never sent.
    pub lies: AtomicUsize,
    /// Calls of `reap` that panic.
    pub bomb: AtomicUsize,
    /// Frames to fail instead of sending.
    pub failures: AtomicUsize,
    /// First 8 bytes of every frame taken, in order, by call.
    pub calls: Mutex<Vec<Vec<u64>>>,
    /// Doorbells rung.
    pub doorbells: AtomicUsize,
    /// Calls that took frames without ringing.
    pub silent: AtomicUsize,
}

impl Control {
    /// Returns the numbers of all frames taken, in order.
    pub fn sent(&self) -> Vec<u64> {
        self.calls.lock().unwrap().concat()
    }

    /// Returns the number of calls that took frames.
    pub fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

/// A device with a ring that completes frames when the test allows it.
pub struct Gate {
    /// The test's side.
    pub control: Arc<Control>,
    ring: usize,
    held: VecDeque<Frame>,
    region: Option<Arc<Region>>,
}

impl Gate {
    /// Makes one with a ring of `ring` frames that completes none.
    pub fn new(ring: usize) -> (Self, Arc<Control>) {
        let control = Arc::new(Control::default());
        (Self { control: control.clone(), ring, held: VecDeque::new(), region: None }, control)
    }

    /// Makes one with every completion allowed.
    pub fn open(ring: usize) -> (Self, Arc<Control>) {
        let (gate, control) = Self::new(ring);
        control.allowed.store(usize::MAX / 2, SeqCst);
        (gate, control)
    }
}

impl Notify for Gate {}

impl Device for Gate {
    fn name(&self) -> String {
        "gate".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.control.allowed.store(usize::MAX / 2, SeqCst);
        Ok(())
    }
}

impl TxDevice for Gate {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(self.ring as u32),
            completions: CompletionMode::Real,
            ..Default::default()
        }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let max = match self.control.take_max.load(SeqCst) {
            0 => usize::MAX,
            max => max,
        };
        let mut call = Vec::new();
        while self.held.len() < self.ring && call.len() < max {
            let Some(frame) = batch.pop() else { break };
            let bytes = self.region.as_ref().unwrap().bytes(&frame).unwrap();
            call.push(u64::from_be_bytes(bytes[..8].try_into().unwrap()));
            self.held.push_back(frame);
        }
        let doorbell = !call.is_empty() && !more;
        self.control.doorbells.fetch_add(usize::from(doorbell), SeqCst);
        if !call.is_empty() {
            self.control.silent.fetch_add(usize::from(!doorbell), SeqCst);
            self.control.calls.lock().unwrap().push(call);
        }
        Transmitted { doorbell, stopped: self.held.len() == self.ring }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        assert_eq!(self.control.bomb.load(SeqCst), 0, "the bomb of the test");
        for _ in 0..budget {
            if self.held.is_empty() || self.control.allowed.load(SeqCst) == 0 {
                break;
            }
            self.control.allowed.fetch_sub(1, SeqCst);
            let frame = self.held.pop_front().unwrap();
            if self.control.failures.load(SeqCst) > 0 {
                self.control.failures.fetch_sub(1, SeqCst);
                into.failed.push((frame, "test"));
            } else {
                into.sent.push(frame).unwrap();
            }
        }
        if self.control.lies.load(SeqCst) > 0 {
            self.control.lies.fetch_sub(1, SeqCst);
            return Err(DeviceError::NotHeld { device: self.name(), slot: 7, ring_frames: self.ring as u32 });
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}
