//! Nanoseconds per packet of a virtqueue on one thread, where no line of memory comes from another processor:
//! the rings alone (add, walk, take back), and then the two devices over them (`virtio-user` transmits,
//! `vhost-user` receives, completions).
//!
//! `ring_speed [RUNS [KEYS]]`: 64-byte packets, rings of 256, batches of 64; of each stage the least of RUNS
//! short runs, which nothing interrupted: so it can be had from a busy machine. The processor's time stamp
//! counter is read around each stage of each batch, which costs a packet some tenths of a nanosecond. With
//! KEYS, such as `copy=off,packed=on`, only the devices with these keys.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::device::{Completions, Device, Notify, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::host::ticks;
use wharf_devices::open::{Direction, open};
use wharf_devices::virtio::packed::{PackedDevice, PackedDriver};
use wharf_devices::virtio::split::{SplitDevice, SplitDriver};
use wharf_devices::virtio::{
    Chain, DeviceRing, DriverRing, Extent, Layout, Memory, MemoryRegion, Options, Place,
};
use wharf_mem::Batch;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::Area;

const SIZE: u16 = 256;
const BATCH: usize = 64;
/// Buffers that a device has at a time.
const AHEAD: usize = 32;
const PACKET_BYTES: u32 = 64;
/// Batches of a run.
const ROUNDS: u32 = 20;
/// Address of the ring's memory for its driver.
const GUEST: u64 = 1 << 32;
const BUFFERS_AT: usize = 64 << 10;
const BUFFER_BYTES: usize = 2048;

type Failed = Box<dyn std::error::Error>;
/// Ticks of a run, by stage.
type Stages = [u64; 4];

/// A measured operation on one batch at a time.
trait Round {
    fn round(&mut self, spent: &mut Stages) -> Result<(), Failed>;
}

/// Runs `stage`, and notes its time.
#[inline(always)]
fn timed<T>(spent: &mut u64, stage: impl FnOnce() -> T) -> T {
    let began = ticks();
    let done = stage();
    *spent += ticks() - began;
    done
}

struct Rings<V, D> {
    driver: V,
    device: D,
    memory: Memory,
    chains: Box<[Chain]>,
}

impl<V: DriverRing, D: DeviceRing> Round for Rings<V, D> {
    #[inline(never)]
    fn round(&mut self, spent: &mut Stages) -> Result<(), Failed> {
        let Self { driver, device, memory, chains } = self;
        timed(&mut spent[0], || {
            for at in 0..BATCH {
                let address = GUEST + (BUFFERS_AT + at * BUFFER_BYTES) as u64;
                driver.add(&[Extent { address, len_bytes: PACKET_BYTES }], &[]);
            }
            driver.publish();
        });
        let mut walked = 0;
        timed(&mut spent[1], || -> Result<(), Failed> {
            while device.pop(memory, &mut chains[0])? {
                let count = 1 + device.pop_plain(memory, &mut chains[1..]);
                walked += chains[..count].iter().map(Chain::readable_bytes).sum::<u32>();
                device.put_all_used(&chains[..count]);
            }
            device.publish();
            Ok(())
        })?;
        let back = timed(&mut spent[2], || -> Result<usize, Failed> {
            let mut back = 0;
            while driver.next_used()?.is_some() {
                back += 1;
            }
            Ok(back)
        })?;
        if (back, walked) == (BATCH, BATCH as u32 * PACKET_BYTES) {
            Ok(())
        } else {
            Err("packets are missing".into())
        }
    }
}

fn rings(layout: Layout, runs: u32, tick_ns: f64) -> Result<(), Failed> {
    let area = Arc::new(Area::new(Mapping::shared_small_pages(1 << 20)?));
    let memory = Memory::new(MemoryRegion::new(GUEST, GUEST, &area, 0, 1 << 20).into_iter().collect())?;
    let (place, options) = (Place::within(&area, 0, layout, SIZE.into())?, Options::default());
    let (name, other) = (format!("{layout} ring"), place.clone());
    let chains = (0..AHEAD).map(|_| Chain::new()).collect();
    let stages = ["add", "walk", "take back"];
    match layout {
        Layout::Split => {
            let (driver, device) = (SplitDriver::new(place, options)?, SplitDevice::new(other, options, 0)?);
            measure(&name, &stages, Rings { driver, device, memory, chains }, runs, tick_ns)
        }
        Layout::Packed => {
            let (driver, device) =
                (PackedDriver::new(place, options)?, PackedDevice::new(other, options, 0x8000)?);
            measure(&name, &stages, Rings { driver, device, memory, chains }, runs, tick_ns)
        }
    }
}

struct Devices {
    driver: Box<dyn TxDevice>,
    device: Box<dyn RxDevice>,
    from: Cache,
    to: Cache,
    batch: Batch,
    received: Batch,
    done: Completions,
}

impl Round for Devices {
    #[inline(never)]
    fn round(&mut self, spent: &mut Stages) -> Result<(), Failed> {
        self.from.take(&mut self.batch, BATCH, PACKET_BYTES)?;
        let region = self.from.pool().region();
        region.each_bytes_mut(&mut self.batch).for_each(|bytes| bytes.fill(1));
        timed(&mut spent[0], || self.driver.transmit(&mut self.batch, false));
        timed(&mut spent[1], || self.device.receive(&mut self.to, &mut self.received, BATCH))?;
        let count = self.received.len();
        timed(&mut spent[2], || self.to.give(&mut self.received))?;
        timed(&mut spent[3], || self.driver.reap(BATCH, false, &mut self.done))?;
        if (count, self.done.sent.len()) != (BATCH, BATCH) {
            return Err("packets are missing".into());
        }
        Ok(self.from.give(&mut self.done.sent)?)
    }
}

fn devices(keys: &str, runs: u32, tick_ns: f64) -> Result<(), Failed> {
    let socket = std::env::temp_dir().join(format!("wharf-ring-speed-{}", std::process::id()));
    let mut device =
        open(&format!("vhost-user:{}", socket.display()), Direction::Receive)?.device.into_rx()?;
    let mut driver =
        open(&format!("virtio-user:{}{keys}", socket.display()), Direction::Send)?.device.into_tx()?;
    let (theirs, ours) =
        (PagePool::builder().frames(1024).build()?, PagePool::builder().frames(1024).build()?);
    device.attach(theirs.region().clone())?;
    driver.attach(ours.region().clone())?;
    let name = format!("devices{keys}: {}", driver.mode().unwrap_or_default());
    let (from, to) = (ours.cache("from")?, theirs.cache("to")?);
    let (batch, received, done) = (Batch::new(BATCH), Batch::new(BATCH), Completions::new(256));
    // Its thread starts the rings by messages: until then nothing arrives.
    let mut devices = Devices { driver, device, from, to, batch, received, done };
    std::thread::sleep(Duration::from_millis(100));
    devices.driver.disarm();
    devices.device.disarm();
    measure(&name, &["transmit", "receive", "give back", "reap"], devices, runs, tick_ns)
}

/// Prints the least that each stage took.
fn measure(name: &str, stages: &[&str], mut what: impl Round, runs: u32, tick_ns: f64) -> Result<(), Failed> {
    let mut least = [u64::MAX; 4];
    for _ in 0..runs {
        let mut spent = [0; 4];
        (0..ROUNDS).try_for_each(|_| what.round(&mut spent))?;
        least.iter_mut().zip(spent).for_each(|(least, spent)| *least = spent.min(*least));
    }
    let packets = f64::from(ROUNDS) * BATCH as f64;
    let each = stages
        .iter()
        .zip(least)
        .map(|(stage, ticks)| format!("{stage} {:.2}", ticks as f64 * tick_ns / packets));
    println!("{name}: {} ns a packet", each.collect::<Vec<_>>().join(", "));
    Ok(())
}

/// Nanoseconds of a tick.
fn tick_ns() -> f64 {
    let (began, first) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(50));
    began.elapsed().as_nanos() as f64 / (ticks() - first) as f64
}

fn main() -> Result<(), Failed> {
    let runs = std::env::args().nth(1).map_or(Ok(1000), |runs| runs.parse())?;
    let tick_ns = tick_ns();
    if let Some(keys) = std::env::args().nth(2) {
        return devices(&format!(",{keys}"), runs, tick_ns);
    }
    for layout in [Layout::Split, Layout::Packed] {
        rings(layout, runs, tick_ns)?;
    }
    for copy in ["on", "off"] {
        for keys in ["in_order=off", "packed=on,in_order=off", "in_order=on", "packed=on,in_order=on"] {
            devices(&format!(",copy={copy},{keys}"), runs, tick_ns)?;
        }
    }
    Ok(())
}
