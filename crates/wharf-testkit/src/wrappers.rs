//! Devices around a device.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::delegate;
use wharf_core::device::{Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo};
use wharf_mem::{Batch, Region};

/// Counts calls that break the doorbell rule, or leave frames without saying so.
pub struct Watched<D> {
    /// The device.
    pub inner: D,
    /// The number of such calls.
    pub broken: Arc<AtomicUsize>,
}

impl<D: TxDevice> Notify for Watched<D> {
    delegate!(inner: arm, disarm, wait_fd);
}

impl<D: TxDevice> Device for Watched<D> {
    delegate!(inner: name, attach, visit, close);
}

impl<D: TxDevice> TxDevice for Watched<D> {
    delegate!(inner: info, flush, reap, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let offered = batch.len();
        let done = self.inner.transmit(batch, more);
        let took = batch.len() < offered;
        self.broken.fetch_add(usize::from(took && !more && !done.doorbell), SeqCst);
        self.broken.fetch_add(usize::from(!batch.is_empty() && !done.stopped), SeqCst);
        done
    }
}

/// The first 8 bytes of each frame that a device took.
pub type Taken = Arc<Mutex<Vec<u64>>>;

/// Records the frames that a device takes.
pub struct Recorder {
    inner: Box<dyn TxDevice>,
    region: Option<Arc<Region>>,
    taken: Taken,
}

impl Recorder {
    /// Puts a recorder around `inner`.
    pub fn new(inner: Box<dyn TxDevice>) -> (Self, Taken) {
        let taken = Taken::default();
        (Self { inner, region: None, taken: taken.clone() }, taken)
    }
}

impl Notify for Recorder {
    delegate!(inner: arm, disarm, wait_fd);
}

impl Device for Recorder {
    delegate!(inner: name, visit, close);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }
}

impl TxDevice for Recorder {
    delegate!(inner: info, flush, reap, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let region = self.region.as_ref().unwrap();
        let header = |frame| u64::from_be_bytes(region.bytes(frame).unwrap()[..8].try_into().unwrap());
        let headers: Vec<u64> = batch.frames().iter().map(header).collect();
        let done = self.inner.transmit(batch, more);
        self.taken.lock().unwrap().extend(&headers[..headers.len() - batch.len()]);
        done
    }
}

/// A callback that the next reap takes and runs.
pub type InReap = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Runs a callback before a reap.
pub struct Interrupted<D> {
    /// The device.
    pub inner: D,
    /// The callback.
    pub in_reap: InReap,
}

impl<D: TxDevice> Notify for Interrupted<D> {
    delegate!(inner: arm, disarm, wait_fd);
}

impl<D: TxDevice> Device for Interrupted<D> {
    delegate!(inner: name, attach, visit);
}

impl<D: TxDevice> TxDevice for Interrupted<D> {
    delegate!(inner: info, transmit, flush, outstanding, set_patience);

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if let Some(call) = self.in_reap.lock().unwrap().take() {
            call();
        }
        self.inner.reap(budget, urgent, into)
    }
}

/// Takes segmentation and checksums away from a device, and bounds its frames to one segment.
#[derive(Debug, Default)]
pub struct Helpless<D> {
    inner: D,
}

impl<D: TxDevice> Notify for Helpless<D> {}

impl<D: TxDevice> Device for Helpless<D> {
    delegate!(inner: name, attach, visit);
}

impl<D: TxDevice> TxDevice for Helpless<D> {
    delegate!(inner: transmit, flush, reap, outstanding, set_patience);

    fn info(&self) -> TxInfo {
        TxInfo {
            segmentation: false,
            tcp_segmentation: false,
            timestamps: false,
            checksum: false,
            segments_max: 1,
            ..self.inner.info()
        }
    }
}
