//! `hex:FILE[,case=lower|upper]`: frames as lines of hexadecimal digits.
//!
//! Two devices: [`HexWriter`] sends, [`HexReader`] receives. Neither has notifications, so both are polled.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;
use wharf::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf::devices::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place};
use wharf::mem::batch::BATCH_FRAMES_MAX;
use wharf::mem::{Batch, Frame, Meta, Region};
use wharf::options::Key;
use wharf::pool::Cache;
use wharf::sg_writer::{Placement, SgWriter};

/// The kind of device: everything that parsing, help, `devices` and the commands want to know.
pub static KIND: Kind = Kind {
    place: Place::File("FILE"),
    tx_keys: &[Key::word("case", &["lower", "upper"], "Case of the digits")],
    can: Can { receive: true, ..Can::SEND },
    ..Kind::new(
        "hex",
        "hex:FILE[,case=lower|upper] to write, hex:FILE to read",
        "frames as lines of digits",
        open,
    )
};

fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let name = spec.name();
    let opened = match opening.direction {
        Direction::Send => {
            let file = File::create(spec.place()).map_err(failed(&name, "cannot create the file"))?;
            Opened::tx(HexWriter {
                out: Some(BufWriter::new(file)),
                is_upper: spec.options().word("case") == Some("upper"),
                name,
                region: None,
                owes_doorbell: false,
                written: Batch::new(BATCH_FRAMES_MAX),
                failed: Vec::new(),
            })
        }
        Direction::Receive => {
            let file = File::open(spec.place()).map_err(failed(&name, "cannot open the file"))?;
            let lines = BufReader::new(file);
            let (line, packet, writer) = (String::new(), Vec::new(), SgWriter::default());
            Opened::rx(HexReader { name, lines, line, packet, writer, line_number: 0, has_ended: false })
        }
        Direction::Both => return Err(spec.fault("a file is read or written, not both at once")),
    };
    Ok(vec![opened])
}

fn failed(device: &str, what: &str) -> impl FnOnce(io::Error) -> DeviceError {
    let (device, what) = (device.to_string(), what.to_string());
    move |source| DeviceError::Io { device, what, source }
}

/// The transmit side. A frame is complete when its line has been written.
struct HexWriter {
    name: String,
    /// `None` once closed.
    out: Option<BufWriter<File>>,
    is_upper: bool,
    region: Option<Arc<Region>>,
    owes_doorbell: bool,
    written: Batch,
    failed: Vec<(Frame, &'static str)>,
}

impl HexWriter {
    fn write(&mut self, frame: &Frame) -> Result<(), &'static str> {
        let (Some(out), Some(region)) = (&mut self.out, &self.region) else { return Err("closed") };
        // A frame may be a chain of buffers.
        for byte in region.chunks(frame).map_err(|_| "foreign-pool")?.flatten() {
            let digits = if self.is_upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
            digits.map_err(|_| "write-error")?;
        }
        writeln!(out).map_err(|_| "write-error")
    }
}

impl Notify for HexWriter {}

impl Device for HexWriter {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.written.frames().iter().for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        let closed = self.out.take().map_or(Ok(()), |mut out| out.flush());
        closed.map_err(failed(&self.name, "cannot write the file"))
    }
}

impl TxDevice for HexWriter {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(BATCH_FRAMES_MAX as u32),
            completions: CompletionMode::Real,
            segments_max: u16::MAX,
            ..TxInfo::default()
        }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        while self.outstanding() < BATCH_FRAMES_MAX {
            let Some(frame) = batch.pop() else { break };
            self.owes_doorbell = true;
            match self.write(&frame) {
                Ok(()) => drop(self.written.push(frame)),
                Err(reason) => self.failed.push((frame, reason)),
            }
        }
        let stopped = self.outstanding() == BATCH_FRAMES_MAX;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    fn flush(&mut self) -> bool {
        std::mem::take(&mut self.owes_doorbell)
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let sent = into.sent.append(&mut self.written, budget);
        let count = self.failed.len().min(budget - sent);
        into.failed.extend(self.failed.drain(..count));
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.written.len() + self.failed.len()
    }
}

/// The receive side.
struct HexReader {
    name: String,
    lines: BufReader<File>,
    line: String,
    line_number: u64,
    /// The packet at hand, until there is memory for it; empty if there is none.
    packet: Vec<u8>,
    writer: SgWriter,
    has_ended: bool,
}

impl HexReader {
    /// Reads the next packet unless one is at hand. Returns false at the end of the file.
    fn load(&mut self) -> Result<bool, DeviceError> {
        while self.packet.is_empty() && !self.has_ended {
            self.line.clear();
            let read = self.lines.read_line(&mut self.line);
            self.has_ended = read.map_err(failed(&self.name, "cannot read the file"))? == 0;
            self.line_number += 1;
            let digits = self.line.trim();
            let byte = |at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
            let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
            let what = || format!("line {}: want pairs of hexadecimal digits", self.line_number);
            self.packet =
                bytes.ok_or_else(|| DeviceError::Unsupported { device: self.name.clone(), what: what() })?;
        }
        Ok(!self.packet.is_empty())
    }
}

impl Notify for HexReader {}

impl Device for HexReader {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for HexReader {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let mut received = 0;
        while received < budget && to.room() > 0 && self.load()? {
            let (bytes, len_bytes) = ([&self.packet[..]], self.packet.len() as u32);
            match self.writer.place(cache, to, bytes.into_iter(), len_bytes, &Meta::default()) {
                Ok(Placement::Done) => self.packet.clear(),
                Ok(Placement::NoMemory) => break,
                Ok(Placement::TooLong) | Err(_) => {
                    let what = format!("line {}: the packet does not fit the pool", self.line_number);
                    return Err(DeviceError::Unsupported { device: self.name.clone(), what });
                }
            }
            received += 1;
        }
        Ok(received)
    }

    fn ended(&self) -> bool {
        self.has_ended && self.packet.is_empty()
    }
}
