//! An example for docs/adding-a-device.md: a network adapter inside the process, opened as `channel`.
//! `my_device PACKETS`: they go there, come back, and every byte is compared.
//!
//! - A `Kind` makes it known: name, abilities and the function that opens it. `Registry::with` adds it to the others.
//! - The device keeps each frame that it has taken until the other end has read it, then gives it back by `reap`. So its
//!   completions are real: a slow reader makes senders wait, and nothing is dropped.
//! - Both ends are the same type, each with the wire that the other one reads.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wharf::device::{
    Batch, Cache, CompletionMode, Completions, Device, DeviceError, DeviceSpec, Frame, Kind, Notify, Opened,
    Opening, Region, Registry, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf::{Direction, Port, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;
/// Packets on their way in one direction.
type Wire = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// Frames that an end holds: those that the other one has not read.
const RING: u32 = 64;
const SECOND: Duration = Duration::from_secs(1);

static KIND: Kind = Kind::new("channel", "channel", "a NIC in memory", open).both_ways().far_end();

fn open(_: &DeviceSpec, _: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (there, back) = (Wire::default(), Wire::default());
    let end = |out: &Wire, into: &Wire| Channel {
        held: Batch::new(RING as usize),
        region: None,
        out: out.clone(),
        into: into.clone(),
    };
    Ok(vec![Opened::duplex(end(&there, &back)).with_far_end(end(&back, &there))])
}

/// One end.
struct Channel {
    /// Frames taken and not given back; the newest of them are on the wire.
    held: Batch,
    region: Option<Arc<Region>>,
    out: Wire,
    into: Wire,
}

fn lock(wire: &Wire) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notify for Channel {}

impl Device for Channel {
    fn name(&self) -> String {
        "channel".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.frames().iter().for_each(see);
    }
}

impl TxDevice for Channel {
    fn info(&self) -> TxInfo {
        let ring_frames = Some(RING);
        TxInfo { ring_frames, completions: CompletionMode::Real, segments_max: 1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        let taken = batch.frames().iter().take(self.held.room());
        let bytes = taken.filter_map(|frame| Some(self.region.as_ref()?.bytes(frame).ok()?.to_vec()));
        lock(&self.out).extend(bytes);
        let doorbell = self.held.append(batch, usize::MAX) > 0;
        Transmitted { doorbell, stopped: self.held.room() == 0 }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let read = self.held.len() - lock(&self.out).len();
        into.sent.append(&mut self.held, read.min(budget));
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}

impl RxDevice for Channel {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let (mut wire, before) = (lock(&self.into), to.len());
        while to.len() - before < budget
            && let Some(bytes) = wire.front()
            && cache.take(to, 1, bytes.len() as u32).is_ok_and(|taken| taken == 1)
        {
            let last = self.region.as_ref().and_then(|region| region.each_bytes_mut(to).last());
            last.zip(wire.pop_front()).iter_mut().for_each(|(frame, bytes)| frame.copy_from_slice(bytes));
        }
        Ok(to.len() - before)
    }
}

// The rest tries it out.

fn main() -> Result<(), Error> {
    let packets: u64 = std::env::args().nth(1).ok_or("usage: my_device PACKETS")?.parse()?;
    let registry = Registry::default().with(&KIND)?;
    let near = Port::builder("channel", Direction::Both).registry(registry).build()?;
    let far = near.far_end()?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&far, packets));
        let sending = scope.spawn(|| send(&near, packets));
        check(&near, packets)?;
        sending.join().map_err(|_| "the sender panicked")??;
        echo.join().map_err(|_| "the echo panicked")?
    })?;
    println!("{packets} packets there and back");
    let audits = [near.close(SECOND), far.close(SECOND)];
    audits.iter().find(|audit| audit.out() > 0).map_or(Ok(()), |audit| Err(audit.to_string().into()))
}

/// Packet `number` has 60 to 1513 bytes.
fn content(number: u64) -> impl Iterator<Item = u8> {
    (0..60 + number as usize % 1454).map(move |at| (number as usize * 7 + at) as u8)
}

fn send(path: &Port, packets: u64) -> Result<(), Error> {
    let mut sender = path.sender("near")?;
    for number in 0..packets {
        let mut packet = sender.packet(content(number).count() as u32, SECOND)?;
        packet.bytes_mut().iter_mut().zip(content(number)).for_each(|(to, byte)| *to = byte);
        _ = sender.send_packet(packet, Wait::Forever)?;
    }
    Ok(())
}

fn echo(path: &Port, packets: u64) -> Result<(), Error> {
    let (mut receiver, mut sender) = (path.receiver()?, path.sender("far")?);
    let (mut burst, mut left) = (path.burst(32), packets);
    while left > 0 {
        left -= receiver.recv(&mut burst, SECOND)? as u64;
        _ = sender.send(&mut burst, SECOND)?;
    }
    path.drain(SECOND);
    Ok(())
}

fn check(path: &Port, packets: u64) -> Result<(), Error> {
    let (mut receiver, mut burst, mut number) = (path.served_receiver()?, path.burst(32), 0);
    while number < packets {
        receiver.recv(&mut burst, SECOND)?;
        for packet in burst.iter_mut() {
            if !packet.iter().copied().eq(content(number)) {
                return Err(format!("packet {number} came back changed").into());
            }
            number += 1;
        }
        burst.clear();
    }
    Ok(())
}
