//! Sends numbered frames by `virtio-user` or `vhost-user` to a peer that sends each back, and checks every
//! one: number, length, bytes.
//!
//! `virtio_loop SPECIFICATION [FRAMES [LONGEST [FRAME_BYTES [FLOWS]]]]`: a device that sends and receives,
//! such as `virtio-user:/run/switch.sock,packed=on`. Frames belong to FLOWS flows in turn, 1 by default; each
//! flow is to come back in order. Ends with a line of what came back, and what it took; exit code 1 if
//! anything was lost, doubled, reordered or changed.
//!
//! It begins once the peer has sent back a frame that is none of those: a driver may flush, as its port
//! starts, what has come before (DPDK's does), and that is no loss. It also waits until the peer has enabled
//! all queue pairs: a flow that moves to a pair enabled later may overtake its own frames.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::device::{Completions, Device, Duplex, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::open::{Direction, open};
use wharf_mem::{Batch, Frame, Region};

const BATCH: usize = 64;
/// Frames under way at a time, at most: the back end drops what it has no room for, and its port has 256 of
/// each.
const WINDOW: u64 = 192;
/// Without anything coming back for so long, the rest is lost: a machine under load may keep a process
/// waiting.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for the first frame to come back. The driver that sends frames back has to start, too, and may
/// share its processor.
const FIRST_WITHIN: Duration = Duration::from_secs(240);
/// Time between two probes. They may all come back at once, and take room.
const ASK_EVERY: Duration = Duration::from_secs(1);
const HEADERS_BYTES: usize = 14;
const FLOW_AT: usize = 11;
const TYPE_AT: usize = 12;
/// Ethernet types of numbered frames and of probes.
const NUMBERED: [u8; 2] = [0x88, 0xb5];
const ASKING: [u8; 2] = [0x88, 0xb6];

struct Loop {
    device: Box<dyn Duplex>,
    region: Arc<Region>,
    cache: Cache,
    batch: Batch,
    arrived: Batch,
    done: Completions,
    longest_bytes: u32,
    /// The frame that is being made.
    bytes: Vec<u8>,
    /// True once frames come back.
    is_met: bool,
    sent: u64,
    received: u64,
    /// The next frame due of each flow.
    due: Vec<u64>,
    /// Calls of the back end, and batches that were given to it.
    kicks: u64,
    batches: u64,
}

impl Loop {
    fn new(
        spec: &str, longest_bytes: u32, frame_bytes: u32, flows: u8,
    ) -> Result<(Self, PagePool), Box<dyn std::error::Error>> {
        let pool = PagePool::builder().frames(4096).frame_bytes(frame_bytes).build()?;
        let mut device = open(spec, Direction::Send)?.device.into_duplex()?;
        device.attach(pool.region().clone())?;
        let (cache, region) = (pool.cache("loop")?, pool.region().clone());
        let new = Self {
            device,
            region,
            cache,
            batch: Batch::new(BATCH),
            arrived: Batch::new(BATCH),
            done: Completions::new(256),
            longest_bytes,
            bytes: Vec::new(),
            is_met: false,
            sent: 0,
            received: 0,
            due: (0..u64::from(flows)).collect(),
            kicks: 0,
            batches: 0,
        };
        Ok((new, pool))
    }

    fn len_of(&self, number: u64) -> u32 {
        60 + (number.wrapping_mul(2_654_435_761) >> 7) as u32 % (self.longest_bytes - 59)
    }

    /// Takes as many frames as may be under way, writes them, and sends them.
    fn send(&mut self, count: u64) -> Result<(), Box<dyn std::error::Error>> {
        let wanted = (WINDOW - (self.sent - self.received)).min(count - self.sent).min(BATCH as u64);
        if self.batch.is_empty() && wanted > 0 {
            let first = self.sent;
            for number in first..first + wanted {
                let Some(frame) = self.frame(number)? else { break };
                self.batch.push(frame).map_err(|frame| format!("no room for {frame:?}"))?;
                self.sent += 1;
            }
        }
        self.transmit()
    }

    fn transmit(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        if !self.batch.is_empty() {
            self.batches += 1;
            self.kicks += u64::from(self.device.transmit(&mut self.batch, false).doorbell);
        }
        self.device.reap(256, false, &mut self.done)?;
        if let Some((_, reason)) = self.done.failed.first() {
            return Err(format!("a frame failed: {reason}").into());
        }
        self.cache.give(&mut self.done.sent)?;
        Ok(())
    }

    /// True once the peer has enabled all queue pairs.
    fn has_all_pairs(&self) -> bool {
        let (mut pairs, mut in_use) = (0, 0);
        self.device.facts(&mut |name, _, value| match name {
            "pairs" => pairs = value,
            "pairs_in_use" => in_use = value,
            _ => {}
        });
        in_use == pairs
    }

    /// Waits until frames come back, and by all pairs.
    fn meet(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let began = Instant::now();
        let mut asked: Option<Instant> = None;
        while !self.is_met || !self.has_all_pairs() {
            if began.elapsed() > FIRST_WITHIN {
                return Err(
                    if self.is_met { "a queue pair stays disabled" } else { "no frame comes back" }.into()
                );
            }
            if self.batch.is_empty() && asked.is_none_or(|at| at.elapsed() > ASK_EVERY) {
                self.cache.take(&mut self.batch, 1, 60)?;
                for bytes in self.region.each_bytes_mut(&mut self.batch) {
                    write(bytes, 0, 0, ASKING);
                }
                asked = Some(Instant::now());
            }
            self.transmit()?;
            if self.receive()? == 0 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Frame `number`, in as many buffers as it takes; `None` while the pool has not enough.
    fn frame(&mut self, number: u64) -> Result<Option<Frame>, Box<dyn std::error::Error>> {
        self.bytes.resize(self.len_of(number) as usize, 0);
        let flow = number % self.due.len() as u64;
        write(&mut self.bytes, number, flow as u8, NUMBERED);
        let mut pieces = Batch::new(64);
        for piece in self.bytes.chunks(self.region.data_bytes_max() as usize) {
            if self.cache.take(&mut pieces, 1, piece.len() as u32).is_err() {
                self.cache.give(&mut pieces)?;
                return Ok(None);
            }
        }
        let chunks = self.bytes.chunks(self.region.data_bytes_max() as usize);
        for (to, from) in self.region.each_bytes_mut(&mut pieces).zip(chunks) {
            to.copy_from_slice(from);
        }
        let Some(mut head) = pieces.pop() else { return Ok(None) };
        while let Some(piece) = pieces.pop() {
            self.region.link(&mut head, piece).map_err(|(error, _)| error)?;
        }
        Ok(Some(head))
    }

    fn receive(&mut self) -> Result<usize, Box<dyn std::error::Error>> {
        let count = self.device.receive(&mut self.cache, &mut self.arrived, BATCH)?;
        for frame in self.arrived.frames() {
            let bytes: Vec<u8>;
            let whole = self.region.bytes(frame)?;
            let whole = if whole.len() == frame.len_bytes() as usize {
                whole
            } else {
                bytes = self.region.chunks(frame)?.flatten().copied().collect();
                &bytes
            };
            if whole.get(TYPE_AT..HEADERS_BYTES) == Some(&ASKING) {
                self.is_met = true;
                continue;
            }
            let flow = whole.get(FLOW_AT).map_or(0, |&flow| usize::from(flow));
            let due = *self.due.get(flow).ok_or("a frame of a flow that there is not")?;
            check(whole, due, self.len_of(due))?;
            self.due[flow] += self.due.len() as u64;
            self.received += 1;
        }
        self.cache.give(&mut self.arrived)?;
        Ok(count)
    }

    fn run(&mut self, count: u64) -> Result<(), Box<dyn std::error::Error>> {
        self.meet()?;
        eprintln!("the first frame is back");
        let mut last = Instant::now();
        while self.received < count {
            self.send(count)?;
            if self.receive()? > 0 {
                last = Instant::now();
            } else if last.elapsed() > PATIENCE {
                let missing = self.sent - self.received;
                return Err(format!("{missing} of {} frames have not come back", self.sent).into());
            } else {
                // The peer may need this processor.
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn close(mut self, pool: &PagePool) -> Result<(), Box<dyn std::error::Error>> {
        close_receiver(&mut *self.device, &mut self.cache)?;
        // The last frames are back before the peer has given up the buffers that they were sent from.
        while self.device.outstanding() > 0 {
            self.device.reap(256, true, &mut self.done)?;
            if self.done.is_empty() {
                break;
            }
            self.cache.give(&mut self.done.sent)?;
            for (frame, _) in self.done.failed.drain(..) {
                self.cache.give_one(frame).map_err(|(error, _)| error)?;
            }
        }
        drop(self);
        match pool.audit().out() {
            0 => Ok(()),
            out => Err(format!("{out} frames of the pool are not home").into()),
        }
    }
}

/// Addresses, a type of one's own, the number, and bytes that follow from it.
fn write(bytes: &mut [u8], number: u64, flow: u8, ether_type: [u8; 2]) {
    bytes.fill(number as u8);
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, flow]);
    bytes[TYPE_AT..HEADERS_BYTES].copy_from_slice(&ether_type);
    bytes[HEADERS_BYTES..HEADERS_BYTES + 8].copy_from_slice(&number.to_be_bytes());
}

fn check(bytes: &[u8], number: u64, len_bytes: u32) -> Result<(), String> {
    let seen = bytes
        .get(HEADERS_BYTES..)
        .and_then(|bytes| bytes.first_chunk())
        .map(|seen| u64::from_be_bytes(*seen));
    if seen != Some(number) {
        return Err(format!("frame {number} was due, and {seen:?} came"));
    }
    if bytes.len() != len_bytes as usize {
        return Err(format!("frame {number} has {} bytes: {len_bytes} were sent", bytes.len()));
    }
    match bytes[HEADERS_BYTES + 8..].iter().all(|&byte| byte == number as u8) {
        true => Ok(()),
        false => Err(format!("frame {number} has other bytes than were sent")),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // DPDK shares memory that cannot be sealed.
    wharf_devices::vhost_user::install_sigbus_handler()?;
    let mut arguments = std::env::args().skip(1);
    let spec = arguments
        .next()
        .ok_or("which device? virtio_loop SPECIFICATION [FRAMES [LONGEST [FRAME_BYTES [FLOWS]]]]")?;
    let count = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let longest_bytes = arguments.next().map_or(Ok(1514), |longest| longest.parse())?;
    let frame_bytes = arguments.next().map_or(Ok(2048), |bytes| bytes.parse())?;
    let flows = arguments.next().map_or(Ok(1), |flows| flows.parse::<u8>())?.max(1);
    let (mut work, pool) = Loop::new(&spec, longest_bytes.clamp(60, 1514), frame_bytes, flows)?;
    let started = Instant::now();
    let result = work.run(count);
    let (received, sent, seconds) = (work.received, work.sent, started.elapsed().as_secs_f64());
    println!(
        "{spec} ({}): {received} of {sent} frames came back, each as it was sent; {seconds:.2} s, {:.3} Mpps, {:.3} kicks a batch",
        work.device.mode().unwrap_or("?"),
        received as f64 / seconds / 1e6,
        work.kicks as f64 / work.batches.max(1) as f64,
    );
    result?;
    work.close(&pool)
}
