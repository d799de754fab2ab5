//! `virtio-user:SOCKET`: a virtio-net driver in user space (virtio 1.2, section 5.1), over a vhost-user back
//! end: a virtual switch, the network side of a virtual machine, or the device side of [`crate::virtio`].
//!
//! The back end is not trusted. The device copies frames into and out of memory of its own, which it shares
//! with the back end. Buffers that the back end names are checked ([`crate::virtio`]).
//!
//! With `copy=off` the back end is trusted, as a guest trusts its network card. It shares the pool itself,
//! and writes to buffers posted for frames alone: see [`VirtioUserOptions::copy`] and [`wharf_mem::region`].
//!
//! One object sends and receives. A sent frame comes back when the back end has used its buffer: real
//! completions, so there is a byte queue limit. With `napi=off` they are looked for late: see [`Napi`]. Only
//! [`Notify::arm`] asks for notifications: of completions, delayed until three quarters are back, and of
//! every arrival. The back end is notified of new buffers only while it asks for that, once a batch.

#[doc(hidden)]
pub mod buffers;
mod cleaning;
mod connect;
mod detached;
mod doctor;
mod loss;
mod options;
#[doc(hidden)]
pub mod pairs;
mod receiving;
mod reconnector;
mod sending;
#[doc(hidden)]
pub mod session;
mod spec;
mod timeout;

pub use options::{Napi, PAIRS_MAX, VirtioUserOptions};

use crate::iface::{Drops, pool_fault};
use crate::virtio::{DriverRing, feature, words};
use cleaning::Cleaning;
use detached::DetachedFrames;
use loss::awaited;
use pairs::Pairs;
use reconnector::Reconnector;
use sending::SEGMENTS_MAX;
use session::{Endpoint, Session, Shared};
pub(crate) use spec::KIND;
pub use spec::open;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use wharf_core::device::{
    Completions, Device, DeviceError, LOST, Notify, RxDevice, Signals, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// Bytes of the header before a frame: that of a packet socket, and the number of buffers.
#[doc(hidden)]
pub const HEADER_BYTES: usize = 12;
const HOLES: &str = "the back end has punched holes into the memory for frames";
/// Empty polls between two looks at the connection.
const LOOK_EVERY: u32 = 64;

/// A virtio-net driver; see [`open`].
///
/// A back end that goes, or that breaks the rules, is reported once, and the frames in its rings come back as
/// failed, `peer-gone`. The report is [`DeviceError::Gone`], and all frames given afterwards fail, too. With
/// `reconnect` it is [`DeviceError::Down`], and later frames wait until a back end is there again. If it
/// recorded what was in flight, its rings are kept for the next one, with their frames.
#[derive(Debug)]
struct VirtioUser<R, C> {
    endpoint: Endpoint,
    features: u64,
    /// `None` while there is no back end, and once it is gone for good, or closed.
    session: Option<Session>,
    /// They stay while a back end is waited for that goes on with them.
    pairs: Option<Pairs<R>>,
    /// What the pairs share with a back end.
    shared: Option<Arc<Shared>>,
    region: Option<Arc<Region>>,
    /// Set while a back end is waited for.
    reconnector: Option<Reconnector<R>>,
    detached: DetachedFrames,
    /// Empty polls until the next look at the connection.
    look_due: u32,
    is_armed: bool,
    lost: Option<DeviceError>,
    /// Drops of earlier connections; `signals` holds their kicks.
    drops: Drops,
    cleaning: C,
    signals: Signals,
}

impl<R: DriverRing + 'static, C: Cleaning> VirtioUser<R, C> {
    fn new(endpoint: Endpoint, session: Session, cleaning: C) -> Self {
        let mut drops = Drops::default();
        ["malformed", "too-long"].into_iter().for_each(|reason| drops.add_count(reason, 0));
        Self {
            endpoint,
            features: session.features,
            session: Some(session),
            pairs: None,
            shared: None,
            region: None,
            reconnector: None,
            detached: DetachedFrames::default(),
            look_due: LOOK_EVERY,
            is_armed: false,
            lost: None,
            drops,
            cleaning,
            signals: Signals::default(),
        }
    }

    fn unsupported(&self, what: String) -> DeviceError {
        DeviceError::Unsupported { device: self.endpoint.name.clone(), what }
    }

    #[inline]
    fn idle(&mut self) {
        self.look_due = self.look_due.saturating_sub(1);
        if self.look_due == 0 {
            self.look();
        }
    }
}

impl<R: DriverRing + 'static, C: Cleaning> Notify for VirtioUser<R, C> {
    /// Makes the next empty poll look at the connection, too.
    fn arm(&mut self) -> bool {
        self.look_due = 1;
        self.count();
        self.endpoint.events.clear();
        self.is_armed = true;
        self.catch_up();
        let Some(pairs) = &mut self.pairs else { return self.lost.is_none() };
        let (is_quiet, has_left) = pairs.arm(self.cleaning.asks(pairs.is_full()));
        if has_left {
            self.cleaning.told();
        }
        is_quiet
    }

    fn disarm(&mut self) {
        self.is_armed = false;
        self.cleaning.told();
        if let Some(pairs) = &mut self.pairs {
            pairs.disarm();
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.endpoint.events.wait_fd())
    }

    fn signals(&mut self) -> Option<Signals> {
        self.count();
        let kicks = self.signals.kicks + self.pairs.as_ref().map_or(0, Pairs::kicks);
        Some(Signals { kicks, ..self.signals })
    }
}

impl<R: DriverRing + 'static, C: Cleaning> Device for VirtioUser<R, C> {
    fn name(&self) -> String {
        self.endpoint.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        Some(words(self.features))
    }

    fn facts(&self, see: &mut dyn FnMut(&'static str, Option<u32>, u64)) {
        let pairs = self.endpoint.options.pairs;
        let all = [
            ("link_up", self.session.is_some().into()),
            ("features", self.features),
            ("pairs", pairs.into()),
            ("pairs_in_use", self.session.as_ref().map_or(0, |_| pairs.into())),
        ];
        all.into_iter().for_each(|(name, value)| see(name, None, value));
    }

    /// Without a back end, the line is down if another one is waited for, and gone otherwise.
    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.look();
        self.catch_up();
        let (device, source) = (self.name(), io::Error::from(io::ErrorKind::NotConnected));
        let what = "the back end is gone";
        Some(match (&self.session, &self.reconnector) {
            (Some(_), _) => Ok(()),
            (None, Some(_)) => Err(DeviceError::Down { device, what: awaited(what), source }),
            (None, None) => Err(DeviceError::Gone { device, what: what.into(), source }),
        })
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let Some(session) = &self.session else { return Ok(()) };
        let headroom_bytes = region.spec().headroom_bytes;
        if (headroom_bytes as usize) < HEADER_BYTES {
            let what =
                format!("the pool's frames have {headroom_bytes} bytes of headroom: it takes {HEADER_BYTES}");
            return Err(self.unsupported(what));
        }
        let (shared, queues) = session.start(&region, &self.endpoint.options)?;
        self.pairs = Some(Pairs::new(queues, shared.buffers.clone(), self.features));
        self.shared = Some(shared);
        self.region = Some(region);
        self.disarm();
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.pairs.iter().for_each(|pairs| pairs.visit(see));
        self.detached.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        if let Some(session) = &self.session {
            // A back end that does not answer is cut off.
            session.stop(self.endpoint.options.copy);
        }
        self.let_go(LOST);
        self.detached.fail_line("closed");
        Ok(())
    }
}

impl<R: DriverRing + 'static, C: Cleaning> TxDevice for VirtioUser<R, C> {
    fn info(&self) -> TxInfo {
        let has = |bits: u64| self.features & bits == bits;
        TxInfo {
            ring_frames: Some(u32::from(self.endpoint.options.size) * u32::from(self.endpoint.options.pairs)),
            completions: C::COMPLETIONS,
            limit_unit: self.endpoint.options.limit_unit,
            segments_max: SEGMENTS_MAX.min(self.endpoint.options.size.into()) as u16,
            segmentation: has(feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_USO),
            checksum: has(feature::CSUM),
            ..TxInfo::default()
        }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if !self.catch_up() {
            self.detached.line.append(batch, usize::MAX);
            return Transmitted { doorbell: false, stopped: true };
        }
        match &mut self.pairs {
            Some(pairs) => {
                self.cleaning.transmitted();
                pairs.transmit(batch, more, &mut self.detached.book)
            }
            None => self.detached.reject(batch),
        }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        self.pairs.as_mut().is_some_and(Pairs::flush)
    }

    #[inline]
    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if urgent {
            self.cleaning.force_completion();
        }
        self.catch_up();
        if let Some(pairs) = &mut self.pairs {
            let before = into.len();
            let is_due = self.cleaning.is_due(pairs.is_full());
            let result = if is_due { pairs.reap(budget, into) } else { Ok(()) };
            if is_due && into.len() - before < budget {
                self.cleaning.cleaned();
            }
            if into.len() == before {
                self.idle();
            }
            result.unwrap_or_else(|error| self.broken(error));
        }
        self.detached.book.reap(budget.saturating_sub(into.len()), into);
        self.lost.take().map_or(Ok(()), Err)
    }

    fn outstanding(&self) -> usize {
        self.pairs.as_ref().map_or(0, Pairs::held) + self.detached.len()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        let sending = self.pairs.as_ref().map_or(0, Pairs::sending);
        match self.reconnector {
            // The thread that waits for a back end notifies.
            Some(_) if sending + self.detached.line.len() > 0 && self.detached.book.is_empty() => {
                Some(u64::MAX)
            }
            None if sending + self.detached.book.len() > 0 => self.cleaning.next_ns(),
            _ => None,
        }
    }
}

impl<R: DriverRing + 'static, C: Cleaning> RxDevice for VirtioUser<R, C> {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.catch_up();
        let Some(pairs) = &mut self.pairs else { return self.lost.take().map_or(Ok(0), Err) };
        match pairs.receive(cache, to, budget.min(to.room())) {
            Ok(Ok(0)) if budget > 0 => self.idle(),
            Ok(Ok(received)) => return Ok(received),
            Ok(Err(error)) => return Err(pool_fault(self.name(), error)),
            Err(error) => self.broken(error),
        }
        self.lost.take().map_or(Ok(0), Err)
    }

    fn ended(&self) -> bool {
        self.pairs.is_none() && self.reconnector.is_none()
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        to.fill_by(|| self.detached.posted.pop())
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        let mut drops = self.drops.clone();
        self.pairs.iter().for_each(|pairs| pairs.drops(&mut |reason, count| drops.add_count(reason, count)));
        drops.show(see);
    }
}
