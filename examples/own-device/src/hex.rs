//! An example for docs/adding-a-device.md: `hex:FILE` writes each frame as a line of hexadecimal digits.
//! `own-device send --pcap data/sample.pcap --to hex:out.txt`, or forward to it from any device.
//!
//! - [`KIND`] is all that a registry wants to know. Parsing, errors, help and `own-device devices` come from it.
//! - `transmit` takes frames in order and makes lines of them. The doorbell writes all lines by one call.
//! - A frame is held until `reap` gives it back, sent or failed with a reason. `visit` shows those held to the audit.
//! - At [`RING`] frames it says that it has stopped and leaves the others: senders wait, and nothing is dropped.
//! - `info` says what it cannot: a frame is one buffer, so that the queue cuts super-packets before it.

use std::fs::File;
use std::io::Write;
use std::iter::from_fn;
use std::sync::Arc;
use wharf::device::{
    Batch, CompletionMode, Completions, Device, DeviceError, DeviceSpec, Frame, Kind, Notify, Opened,
    Opening, Region, Transmitted, TxDevice, TxInfo,
};

/// Most frames held.
const RING: usize = 256;

pub static KIND: Kind = Kind::new("hex", "hex:FILE", "frames as lines of digits", open).file("FILE");

fn open(spec: &DeviceSpec, _: Opening) -> Result<Vec<Opened>, DeviceError> {
    let file = File::create(spec.place()).map_err(|error| spec.fault(error.to_string()))?;
    let (name, posted, sent, failed) = (spec.name(), Batch::new(RING), Batch::new(RING), Vec::new());
    Ok(vec![Opened::tx(Hex { name, file, region: None, lines: Vec::new(), posted, sent, failed })])
}

struct Hex {
    name: String,
    file: File,
    region: Option<Arc<Region>>,
    /// Lines of the frames in `posted`, not written yet.
    lines: Vec<u8>,
    posted: Batch,
    sent: Batch,
    failed: Vec<(Frame, &'static str)>,
}

impl Notify for Hex {}

impl Device for Hex {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        let failed = self.failed.iter().map(|(frame, _)| frame);
        self.posted.frames().iter().chain(self.sent.frames()).chain(failed).for_each(see);
    }
}

impl TxDevice for Hex {
    fn info(&self) -> TxInfo {
        TxInfo { ring_frames: Some(RING as u32), completions: CompletionMode::Real, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        while self.outstanding() < RING {
            let Some(frame) = batch.pop() else { break };
            let Some(Ok(bytes)) = self.region.as_ref().map(|region| region.bytes(&frame)) else {
                self.failed.push((frame, "foreign-pool"));
                continue;
            };
            bytes.iter().for_each(|byte| write!(self.lines, "{byte:02x}").unwrap_or_default());
            self.lines.push(b'\n');
            drop(self.posted.push(frame)); // There is room.
        }
        let stopped = self.outstanding() == RING;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    fn flush(&mut self) -> bool {
        let is_owed = !self.posted.is_empty();
        match self.file.write_all(&self.lines) {
            Ok(()) => drop(self.sent.append(&mut self.posted, RING)),
            Err(_) => self.failed.extend(from_fn(|| self.posted.pop()).map(|frame| (frame, "write-error"))),
        }
        self.lines.clear();
        is_owed
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let sent = into.sent.append(&mut self.sent, budget);
        let failed = self.failed.len().min(budget - sent);
        into.failed.extend(self.failed.drain(..failed));
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.posted.len() + self.sent.len() + self.failed.len()
    }
}
