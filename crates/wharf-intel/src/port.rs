//! `Port`: a queue of an adapter, as a device.

use super::adapter::Adapter;
use super::bus::Bus;
use super::family::Family;
use super::faults::{attach_fault, fault_of};
use super::link::AdapterLink;
use super::offload;
use super::options::PortOptions;
use super::registers::{CRCERRS, MPC, ROC, RXERRC};
use super::rx::{self, Rx};
use super::throttle::Throttle;
use super::tx::{SEGMENTS_MAX, SHORTEST_BYTES, Tx, pad};
use crate::vfio::Bar;
use std::os::fd::RawFd;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Signals, Transmitted, TxDevice,
    TxInfo,
};
use wharf_core::pool::Cache;
use wharf_devices::iface::{Drops, State, TxBook, io_fault, pool_fault};
use wharf_mem::{Batch, Frame, Region};

/// Quarters of the pool that are posted for arrivals, at most: by a device that only receives, and by one that sends as
/// well.
const ALONE_QUARTERS: u32 = 3;
const BOTH_QUARTERS: u32 = 1;
/// Time within which a receiver that sleeps looks at the adapter: its removal notifies by another descriptor.
const LOOK_NS: u64 = 100_000_000;

/// A queue of an adapter. It sends and receives, or one of both.
#[derive(Debug)]
pub struct Port<F: Family, B: Bus> {
    /// `None` once closed.
    adapter: Option<Arc<Adapter<F, B>>>,
    options: PortOptions,
    queue: u32,
    tx: Option<Tx<F>>,
    rx: Option<Rx<F>>,
    line: AdapterLink,
    book: TxBook,
    /// Memory that was posted for arrivals when the device was closed.
    reclaimed: Vec<Frame>,
    signals: Signals,
    throttle: Throttle,
    /// Frames that arrived, or were reported as sent, since the last interrupt.
    moved: u64,
    is_armed: bool,
    /// True if the adapter reaches the pool for this queue.
    is_attached: bool,
    drops: Drops,
}

impl<F: Family, B: Bus> Port<F, B> {
    /// Resets the adapter behind `bus`, and makes a device of each of its queues, called `name`.
    ///
    /// # Errors
    /// The adapter does not answer.
    pub fn open(name: &str, bus: B, options: &PortOptions) -> Result<Vec<Self>, DeviceError> {
        let adapter = Adapter::<F, B>::open(bus, options.queues)
            .map_err(io_fault(name, "the adapter does not answer"))?;
        let one = |queue: u32| {
            let name = if queue == 0 { name.to_string() } else { format!("{name}#{queue}") };
            Self {
                adapter: Some(adapter.clone()),
                options: options.clone(),
                queue,
                tx: None,
                rx: None,
                line: AdapterLink::new(name),
                book: TxBook::new(0),
                reclaimed: Vec::new(),
                signals: Signals::default(),
                throttle: Throttle::default(),
                moved: 0,
                is_armed: false,
                is_attached: false,
                drops: Drops::default(),
            }
        };
        Ok((0..options.queues.max(1)).map(one).collect())
    }

    fn start(&mut self, adapter: &Adapter<F, B>, region: &Arc<Region>) -> Result<(), DeviceError> {
        let (bus, size) = (&adapter.bus, self.options.ring_entries);
        let device = self.line.device().to_string();
        let fault = |error| attach_fault(&device, error);
        let at = adapter.attach(region, self.options.receives).map_err(fault)?;
        self.is_attached = true;
        if self.options.sends {
            self.tx = Some(Tx::new(bus, F::tx_ring(self.queue), size, region, at).map_err(fault)?);
            F::start_tx(bus, self.queue);
        }
        if self.options.receives {
            let buffer_bytes = rx::buffer_bytes::<F>(region, &self.options, self.line.device())?;
            let quarters = if self.options.sends { BOTH_QUARTERS } else { ALONE_QUARTERS };
            let most = region.spec().frames / 4 * quarters / self.options.queues.max(1);
            let rx = Rx::new(bus, F::rx_ring(self.queue), (size, most), region, at).map_err(fault)?;
            self.rx = Some(rx);
            F::start_rx(bus, self.queue, buffer_bytes, &self.options);
        }
        // Frames for an adapter without a carrier fail, and never come into its ring: only a reset would take them back.
        self.line.look(bus, 0, 0);
        Ok(())
    }

    /// Adds up what the adapter has dropped since the last call.
    #[cold]
    fn count_drops(&mut self) {
        let Some(adapter) = &self.adapter else { return };
        let bus = &adapter.bus;
        self.drops.add_count("ring-full", F::missed(bus, self.queue));
        // The adapter counts these for all its queues together, and forgets what is read.
        let counters = [(MPC, "ring-full"), (CRCERRS, "malformed"), (RXERRC, "malformed"), (ROC, "too-long")];
        for (at, reason) in counters.into_iter().filter(|_| self.queue == 0) {
            let count = bus.read(at);
            if !matches!(count, 0 | Bar::NOTHING) {
                self.drops.add_count(reason, count.into());
            }
        }
    }

    #[cold]
    fn look(&mut self) {
        let Some(adapter) = &self.adapter else { return };
        if adapter.was_reset() {
            return self.line.end("another of its queues did not end, and the adapter was reset");
        }
        // Frames that have been reported, and are still to be taken, are no sign of a hang.
        let of = |tx: &Tx<F>| (if tx.has_done() { 0 } else { tx.held() }, tx.done());
        let (held, done) = self.tx.as_ref().map_or((0, 0), of);
        self.line.look(&adapter.bus, held, done);
    }

    /// Handles the first frame, an unusual one. Returns true if there was no room for it, so that it stays.
    #[cold]
    fn take_unusual(&mut self, batch: &mut Batch) -> bool {
        let Some(first) = batch.frames().first() else { return true };
        let fault = match &mut self.tx {
            None => Some(if self.adapter.is_none() { "closed" } else { "not-attached" }),
            Some(tx) => match fault_of(tx, first, &self.options).or(self.line.state().reason()) {
                // A description of the work on it may come before it.
                None if tx.parts(first) >= tx.room() => return true,
                fault => fault,
            },
        };
        let Some(mut frame) = batch.pop() else { return true };
        match (fault, &mut self.tx) {
            (None, Some(tx)) => {
                let longest_bytes = self.options.longest_bytes();
                let context = match offload::work_of(tx.region(), &mut frame, longest_bytes) {
                    Ok(context) => context,
                    Err(reason) => {
                        self.book.fail([frame], reason);
                        return false;
                    }
                };
                if !pad(tx.region(), &mut frame) {
                    self.book.fail([frame], "too-short");
                    return false;
                }
                if let Err((reason, frame)) = tx.post_chain(frame, context) {
                    self.book.fail([frame], reason);
                }
            }
            (fault, _) => self.book.fail([frame], fault.unwrap_or("closed")),
        }
        false
    }

    /// Posts frames from the front. Returns true if there is no room for more.
    #[inline]
    fn post(&mut self, batch: &mut Batch) -> bool {
        let lengths = SHORTEST_BYTES..=self.options.longest_bytes();
        while !batch.is_empty() {
            if let (Some(tx), State::Up) = (&mut self.tx, self.line.state()) {
                let pool = tx.pool();
                if !tx.splits_next() {
                    tx.post_while(batch, |frame| {
                        lengths.contains(&frame.len_bytes()) && !frame.has_meta() && frame.pool() == pool
                    });
                }
                if tx.room() == 0 {
                    return true;
                }
            }
            if !batch.is_empty() && self.take_unusual(batch) {
                return true;
            }
        }
        self.tx.as_ref().is_some_and(|tx| tx.room() == 0)
    }
}

impl<F: Family, B: Bus> Notify for Port<F, B> {
    fn arm(&mut self) -> bool {
        let Some(adapter) = &self.adapter else { return true };
        let (bus, vector) = (&adapter.bus, self.queue);
        let has_come = bus.take(vector);
        if has_come || !self.is_armed {
            F::acknowledge(bus, self.queue);
        }
        if has_come {
            self.signals.interrupts += 1;
            if let Some(interval_ns) = self.throttle.learn(bus.now_ns(), std::mem::take(&mut self.moved)) {
                F::throttle(bus, self.queue, interval_ns);
            }
            bus.unmask();
        }
        F::unmask(bus, self.queue);
        self.is_armed = true;
        self.line.look_soon();
        let has_done = self.tx.as_ref().is_some_and(Tx::has_done);
        !(has_done || self.rx.as_ref().is_some_and(Rx::has_arrived))
    }

    fn disarm(&mut self) {
        if let (true, Some(adapter)) = (std::mem::take(&mut self.is_armed), &self.adapter) {
            F::mask(&adapter.bus, self.queue);
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.adapter.as_ref().and_then(|adapter| adapter.bus.wait_fd(self.queue))
    }

    fn signals(&mut self) -> Option<Signals> {
        Some(self.signals)
    }
}

impl<F: Family, B: Bus> Device for Port<F, B> {
    fn name(&self) -> String {
        self.line.device().into()
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.look();
        Some(self.line.link())
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let Some(adapter) = self.adapter.clone() else { return Ok(()) };
        self.start(&adapter, &region)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.tx.iter().for_each(|tx| tx.visit(see));
        self.rx.iter().for_each(|rx| rx.visit(see));
        self.book.visit(see);
        self.reclaimed.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.count_drops();
        let Some(adapter) = self.adapter.take() else { return Ok(()) };
        F::mask(&adapter.bus, self.queue);
        if std::mem::take(&mut self.is_attached) {
            let has_stopped = F::stop_queue(&adapter.bus, self.queue);
            adapter.detach(has_stopped);
        }
        if let Some(mut tx) = self.tx.take() {
            while let Some(frame) = tx.take_done() {
                self.book.sent(frame);
            }
            self.book.fail(tx.into_held(), self.line.unsent());
        }
        if let Some(mut rx) = self.rx.take() {
            self.drops.absorb(&mut rx.drops);
            self.reclaimed.extend(rx.into_held());
        }
        Ok(())
    }
}

impl<F: Family, B: Bus> TxDevice for Port<F, B> {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(self.options.ring_entries - 1),
            completions: CompletionMode::Real,
            segments_max: SEGMENTS_MAX as u16,
            tcp_segmentation: true,
            checksum: true,
            ..TxInfo::default()
        }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let stopped = self.post(batch);
        let doorbell = (!more || stopped) && self.flush();
        Transmitted { doorbell, stopped }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        let (Some(tx), Some(adapter)) = (&mut self.tx, &self.adapter) else { return false };
        let rings = tx.flush(&adapter.bus);
        self.signals.kicks += u64::from(rings);
        rings
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let before = into.len();
        if let Some(tx) = &mut self.tx {
            tx.reap(budget, into);
        }
        self.book.reap(budget - (into.len() - before).min(budget), into);
        self.moved += (into.len() - before) as u64;
        if self.line.is_due() {
            self.look();
        }
        self.line.take_error()
    }

    fn outstanding(&self) -> usize {
        self.tx.as_ref().map_or(0, Tx::held) + self.book.len()
    }
}

impl<F: Family, B: Bus> RxDevice for Port<F, B> {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let (Some(rx), Some(adapter)) = (&mut self.rx, &self.adapter) else { return Ok(0) };
        let received = rx.receive(&adapter.bus, cache, to, budget.min(to.room()));
        let received = received.map_err(|error| pool_fault(self.line.device(), error))?;
        self.moved += received as u64;
        if received == 0 && budget > 0 && self.line.is_due() {
            self.look();
            self.line.take_error()?;
        }
        Ok(received)
    }

    fn ended(&self) -> bool {
        self.adapter.is_none() || self.line.state() == State::Gone
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        to.fill_by(|| self.reclaimed.pop())
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.count_drops();
        if let Some(rx) = &mut self.rx {
            self.drops.absorb(&mut rx.drops);
        }
        self.drops.show(see);
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        (self.is_armed && !self.ended()).then_some(LOOK_NS)
    }
}

impl<F: Family, B: Bus> Drop for Port<F, B> {
    fn drop(&mut self) {
        // The adapter leaves the memory before the rings are unmapped.
        let _ = self.close();
    }
}
