//! A back end that goes, and the next one.

use super::cleaning::Cleaning;
use super::detached::{DetachedFrames, PEER_GONE};
use super::reconnector::{Kept, Reconnector};
use super::{HOLES, LOOK_EVERY, VirtioUser};
use crate::virtio::{DriverRing, RingError};
use std::io;
use wharf_core::device::DeviceError;

impl<R: DriverRing + 'static, C: Cleaning> VirtioUser<R, C> {
    /// Nothing has happened: looks whether the back end is still there.
    #[cold]
    pub(super) fn look(&mut self) {
        self.look_due = LOOK_EVERY;
        let what = match (&self.session, &self.pairs) {
            (Some(session), _) if !session.is_alive() => "the back end is gone",
            (_, Some(pairs)) if pairs.buffers.is_broken() => HOLES,
            _ => return,
        };
        self.pairs.iter_mut().for_each(|pairs| self.detached.take_left(pairs));
        let kept = self.kept().filter(|_| what != HOLES);
        self.lose(what, io::Error::from(io::ErrorKind::ConnectionReset), kept);
    }

    #[cold]
    pub(super) fn broken(&mut self, error: RingError) {
        let source = io::Error::new(io::ErrorKind::InvalidData, error);
        self.lose("the back end breaks the rules of a virtqueue", source, None);
    }

    /// Returns what the next back end goes on with, if the one that is gone recorded what was in flight.
    fn kept(&self) -> Option<Kept> {
        let shared = self.shared.as_ref().filter(|shared| shared.is_kept())?;
        Some((shared.clone(), self.pairs.as_ref()?.positions()))
    }

    fn lose(&mut self, what: &str, source: io::Error, kept: Option<Kept>) {
        match kept {
            Some(_) => self.session = None,
            None => self.let_go(PEER_GONE),
        }
        let device = self.endpoint.name.clone();
        self.reconnector =
            self.region.clone().filter(|_| self.endpoint.options.reconnect).and_then(|region| {
                // Without a thread the back end is gone for good.
                Reconnector::start(self.endpoint.clone(), self.features, region, kept).ok()
            });
        self.lost = Some(match self.reconnector {
            None => {
                self.let_go(PEER_GONE);
                self.detached.fail_line(PEER_GONE);
                DeviceError::Gone { device, what: what.into(), source }
            }
            Some(_) => DeviceError::Down { device, what: awaited(what), source },
        });
    }

    /// Returns true if no frames wait for a back end: there is one, or none is waited for.
    #[inline]
    pub(super) fn catch_up(&mut self) -> bool {
        (self.reconnector.is_none() && self.detached.line.is_empty()) || self.resume()
    }

    /// Adopts a back end that has come, if one has. Returns true if all frames that waited for it are on
    /// their way.
    #[cold]
    fn resume(&mut self) -> bool {
        match self.reconnector.as_mut().and_then(Reconnector::answer) {
            None => {}
            Some(Err(error)) => self.lost = Some(error),
            Some(Ok((session, fresh))) => {
                if let Some((shared, mut pairs)) = fresh {
                    self.let_go(PEER_GONE);
                    pairs.adopt(self.detached.posted.drain(..));
                    (self.shared, self.pairs) = (Some(shared), Some(pairs));
                }
                let Some(pairs) = &mut self.pairs else { return false };
                pairs.tell();
                // A caller that waits for a notification gets them all, until it arms anew.
                if !self.is_armed {
                    pairs.disarm();
                }
                (self.session, self.reconnector) = (Some(session), None);
                self.look_due = LOOK_EVERY;
            }
        }
        let (Some(pairs), DetachedFrames { line, book, .. }) = (&mut self.pairs, &mut self.detached) else {
            return false;
        };
        self.cleaning.transmitted();
        pairs.transmit(line, false, book);
        line.is_empty()
    }

    /// Counts the notifications that have come.
    pub(super) fn count(&mut self) {
        self.signals.interrupts += self.endpoint.events.take_calls();
    }

    /// Ends the connection; the frames inside are reaped as failed.
    pub(super) fn let_go(&mut self, reason: &'static str) {
        self.count();
        (self.session, self.reconnector) = (None, None);
        if let Some(pairs) = self.pairs.take() {
            pairs.drops(&mut |reason, count| self.drops.add_count(reason, count));
            self.signals.kicks += pairs.kicks();
            self.detached.take(pairs, reason);
        }
    }
}

/// Returns the text of a loss after which the driver waits for another back end.
pub(super) fn awaited(what: &str) -> String {
    format!("{what}; another one is waited for")
}
