//! A device with memory, driven by hand.

use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, Completions};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::open::{Direction, open};
use wharf_mem::{Batch, Meta};

/// A device with memory, driven by hand.
pub struct End {
    /// The device.
    pub device: AnyDevice,
    /// Its memory.
    pub pool: PagePool,
    /// Frames to send and to receive into.
    pub cache: Cache,
    /// Frames offered.
    pub batch: Batch,
    /// Completions of the last reap.
    pub done: Completions,
}

impl End {
    /// Opens `spec` with frames of `frame_bytes`. Tries again while another test still holds it.
    pub fn new(spec: &str, direction: Direction, frame_bytes: u32) -> Self {
        // A process that another test is starting has all descriptors until it runs its program: those just
        // closed, too.
        let mut tries = 0;
        let mut again = |error: String, wanted: [&str; 2]| {
            tries += 1;
            assert!(tries < 1000 && wanted.iter().any(|wanted| error.contains(wanted)), "{error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let mut device = loop {
            match open(spec, direction) {
                Ok(opened) => break opened.device,
                Err(error) => again(error.to_string(), ["it is in use"; 2]),
            }
        };
        let pool = crate::pool_of(4096, frame_bytes);
        while let Err(error) = device.attach(pool.region().clone()) {
            again(error.to_string(), ["already", "in use by another"]);
        }
        Self::over(device, pool)
    }

    /// Attaches `device` to `pool`.
    pub fn of(mut device: AnyDevice, pool: PagePool) -> Self {
        device.attach(pool.region().clone()).unwrap();
        Self::over(device, pool)
    }

    fn over(device: AnyDevice, pool: PagePool) -> Self {
        let cache = pool.cache("test").unwrap();
        Self { device, pool, cache, batch: Batch::new(256), done: Completions::new(256) }
    }

    /// Returns the number of frames that it is sending.
    pub fn outstanding(&self) -> usize {
        self.device.as_tx().map_or(0, |device| device.outstanding())
    }

    /// Opens `spec` to send.
    pub fn sender(spec: &str) -> Self {
        Self::new(spec, Direction::Send, 1984)
    }

    /// Opens `spec` to receive.
    pub fn receiver(spec: &str) -> Self {
        Self::new(spec, Direction::Receive, 1984)
    }

    /// Adds a frame to the batch.
    pub fn offer(&mut self, bytes: &[u8]) {
        assert_eq!(self.cache.take(&mut self.batch, 1, bytes.len() as u32).unwrap(), 1);
        let frame = self.batch.frames_mut().last_mut().unwrap();
        self.pool.region().bytes_mut(frame).unwrap().copy_from_slice(bytes);
        self.batch.refresh();
    }

    /// Works like [`End::offer`], in as many buffers as it takes.
    pub fn offer_chain(&mut self, bytes: &[u8]) {
        self.offer_with(bytes, None);
    }

    /// Works like [`End::offer_chain`], with the requests of `meta`.
    pub fn offer_with(&mut self, bytes: &[u8], meta: Option<&Meta>) {
        let frame = crate::packets::frame_of(&mut self.cache, bytes, usize::MAX, meta);
        self.batch.push(frame.expect("memory")).unwrap();
    }

    /// Transmits the offered frames and reaps until all have come back. Returns the number sent, and the reasons of
    /// the others.
    pub fn send_all(&mut self) -> (usize, Vec<&'static str>) {
        let (mut sent, mut failed) = (0, Vec::new());
        let until = Instant::now() + Duration::from_secs(10);
        while (!self.batch.is_empty() || self.outstanding() > 0) && Instant::now() < until {
            if !self.batch.is_empty() {
                self.device.tx_mut().unwrap().transmit(&mut self.batch, false);
            }
            let (one_sent, one_failed) = self.reap();
            sent += one_sent;
            failed.extend(one_failed);
        }
        assert_eq!((self.batch.len(), self.outstanding()), (0, 0), "stuck");
        (sent, failed)
    }

    /// Reaps. Returns the number sent, and the reasons of the others.
    pub fn reap(&mut self) -> (usize, Vec<&'static str>) {
        // Errors of the device are looked at by those tests that make some.
        let _ = self.device.tx_mut().unwrap().reap(256, false, &mut self.done);
        let sent = self.done.sent.len();
        self.cache.give(&mut self.done.sent).unwrap();
        let failed = self.done.failed.drain(..).map(|(frame, reason)| {
            self.cache.give_one(frame).unwrap();
            reason
        });
        (sent, failed.collect())
    }

    /// Receives until there are `count` frames, or for some seconds; all bytes of each.
    pub fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.receive_within(count, Duration::from_secs(5))
    }

    /// Works like [`End::receive`], for as long as `time`.
    pub fn receive_within(&mut self, count: usize, time: Duration) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let until = Instant::now() + time;
        // Once at least, should it not be run for so long.
        loop {
            self.device.rx_mut().unwrap().receive(&mut self.cache, &mut self.batch, 64).unwrap();
            let region = self.pool.region();
            let bytes = |frame| region.chunks(frame).unwrap().flatten().copied().collect::<Vec<u8>>();
            frames.extend(self.batch.frames().iter().map(bytes));
            self.cache.give(&mut self.batch).unwrap();
            if frames.len() >= count || Instant::now() >= until {
                return frames;
            }
        }
    }

    /// Asserts that all frames are back.
    pub fn assert_all_home(&mut self) {
        assert_eq!(self.outstanding(), 0);
        self.cache.give(&mut self.batch).unwrap();
        let audit = self.pool.audit();
        assert_eq!(audit.out(), 0, "{audit}");
    }
}
