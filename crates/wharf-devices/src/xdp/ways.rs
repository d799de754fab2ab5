//! `WaysTried`: the ways to open a queue, the best first, and the reason that each better one was refused.

use super::{Mode, Refusal, Step, XdpOptions, fault};
use crate::link::Link;
use std::io;
use wharf_core::device::{DeviceError, ModeReason};
use wharf_mem::Region;
use wharf_sys::errno::{EBUSY, EEXIST, EINVAL, ENOBUFS, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP, EPERM};
use wharf_sys::ethtool::Ethtool;
use wharf_sys::netlink::xdp_features;
use wharf_sys::xdp::Bind;

/// A way to open a queue to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// True if the adapter reads the pool's memory itself; otherwise the kernel copies.
    pub zero_copy: bool,
    /// True if a packet may lie in several buffers.
    pub multi_buffer: bool,
    /// True if buffers are aligned to their length; otherwise they begin anywhere.
    pub aligned: bool,
    /// True if a program of ours is attached, which passes all arrivals to the host.
    pub program: bool,
}

/// A way that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RefusedWay {
    way: Way,
    /// The cause, in words.
    reason: String,
    /// The system's error number, if the system refused it.
    errno: Option<i32>,
}

/// The ways that were refused before one worked, in the order in which they were tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WaysTried {
    refused: Vec<RefusedWay>,
}

impl Way {
    /// Returns the first way to try. A queue whose sibling has attached the program has it, too.
    pub(super) fn first(mode: Mode, program: bool) -> Self {
        let zero_copy = mode != Mode::Copy;
        Self { zero_copy, multi_buffer: true, aligned: false, program: program && zero_copy }
    }

    /// Returns the next way to try after this one was refused with an error at `step`; `None` if the error is final.
    ///
    /// `EOPNOTSUPP` to a binding means that the driver does not do several buffers without copying, or copies always. An error of
    /// the first doorbell means that the driver wants a program; another one to a binding, that it may like aligned memory.
    pub(super) fn after(self, mode: Mode, step: Step, errno: Option<i32>) -> Option<Self> {
        let unsupported = matches!(errno, Some(EOPNOTSUPP | EINVAL));
        let copy = || (mode != Mode::ZeroCopy).then_some(Self::first(Mode::Copy, false));
        match step {
            Step::Bind if matches!(errno, Some(EBUSY | ENODEV | EPERM)) => None,
            Step::Bind if self.multi_buffer && unsupported => Some(Self { multi_buffer: false, ..self }),
            _ if !self.zero_copy => None,
            Step::Kick if !self.program => Some(Self { program: true, ..self }),
            Step::Bind | Step::Register if !self.aligned && errno != Some(EOPNOTSUPP) => {
                Some(Self { aligned: true, ..self })
            }
            _ => copy(),
        }
    }

    /// Makes the way of a receiver, which always has a program.
    pub(super) fn to_receive(how: Bind, aligned: bool) -> Self {
        Self { zero_copy: how.zero_copy, multi_buffer: how.multi_buffer, aligned, program: true }
    }

    pub(super) fn bind(self) -> Bind {
        Bind { zero_copy: self.zero_copy, multi_buffer: self.multi_buffer }
    }
}

impl WaysTried {
    /// Notes that `way` was refused.
    pub(super) fn note(&mut self, link: &Link, queue: u32, way: Way, (step, error): &Refusal) {
        let reason = match error.raw_os_error() {
            None => error.to_string(),
            Some(errno) => {
                reason(link, queue, way, *step, errno).unwrap_or_else(|| format!("{}: {error}", step.name()))
            }
        };
        self.refused.push(RefusedWay { way, reason, errno: error.raw_os_error() });
    }

    /// Explains why no way works to use queue `queue`.
    pub(super) fn fault(
        &self, link: &Link, options: &XdpOptions, (queue, region): (u32, &Region), refusal: Refusal,
    ) -> DeviceError {
        match self.why_copied() {
            Some(why) if options.mode == Mode::ZeroCopy && self.copying_may_work(link, queue, &refusal) => {
                let source = io::Error::from_raw_os_error(refusal.1.raw_os_error().unwrap_or(EOPNOTSUPP));
                link.fault(&format!("{}: mode=auto takes the best that works", why.what))(source)
            }
            _ => fault(link, queue, region, refusal),
        }
    }

    /// True if another mode may work although this refusal ended the search.
    fn copying_may_work(&self, link: &Link, queue: u32, (step, error): &Refusal) -> bool {
        match step {
            Step::Bind if matches!(error.raw_os_error(), Some(EBUSY | ENODEV | EPERM)) => false,
            Step::Bind => queues(link).is_none_or(|count| queue < count),
            Step::Register => error.raw_os_error().is_none(),
            // Any driver has the generic hook.
            Step::Attach if error.raw_os_error() == Some(EOPNOTSUPP) => true,
            // A receiver has a program in each way.
            Step::Program | Step::Attach | Step::Share => self.refused.iter().any(|one| !one.way.program),
            _ => true,
        }
    }

    /// Returns why the queue is not opened without copying; `None` if that was not tried.
    ///
    /// Ways that were tried only since a plainer one had been refused count if there is no plainer one.
    pub(super) fn why_copied(&self) -> Option<ModeReason> {
        let zero_copy = || self.refused.iter().filter(|one| one.way.zero_copy);
        let is_plain = |one: &&RefusedWay| {
            (!one.way.multi_buffer || zero_copy().all(|all| all.way.multi_buffer))
                && (!one.way.aligned || zero_copy().all(|all| all.way.aligned))
        };
        let mut reasons: Vec<&str> = zero_copy().filter(is_plain).map(|one| one.reason.as_str()).collect();
        reasons.dedup();
        let is_curable = zero_copy().any(|one| one.errno != Some(EOPNOTSUPP));
        let what = (!reasons.is_empty()).then(|| format!("zero-copy refused: {}", reasons.join("; ")))?;
        Some(ModeReason { what, is_curable })
    }
}

/// Returns the cause of an error in words, where it is known.
fn reason(link: &Link, queue: u32, way: Way, step: Step, errno: i32) -> Option<String> {
    let driver = || link.driver().unwrap_or_else(|| "the driver".into());
    Some(match (step, errno) {
        (Step::Bind, EBUSY) => format!("queue {queue} is in use by another AF_XDP socket"),
        (Step::Bind, EOPNOTSUPP) if way.multi_buffer => format!("{} has one buffer for a packet", driver()),
        (Step::Bind, EOPNOTSUPP) => format!("{} has no zero-copy", driver()),
        (Step::Bind, EINVAL) => invalid(link, queue),
        (Step::Bind, ENOENT) => "the driver receives into big pages, and then has no XDP".into(),
        (Step::Kick, _) if way.program => {
            let error = io::Error::from_raw_os_error(errno);
            format!("{} does not send although a program is attached ({error})", driver())
        }
        (Step::Kick, _) => format!("{} wants an XDP program attached", driver()),
        (Step::Attach, EOPNOTSUPP) => format!("{} runs no XDP program", driver()),
        (Step::Attach | Step::Share, EBUSY | EEXIST) => "another XDP program is attached".into(),
        (Step::Attach, ENOSPC) => format!(
            "the other end of {} sends by more queues than this one receives by (`ethtool -L` at either end)",
            link.interface_name
        ),
        (Step::Register, ENOBUFS) => "its memory may not be locked: raise the limit (`ulimit -l`)".into(),
        (Step::Program | Step::Attach, EPERM) => {
            "loading one needs CAP_BPF and CAP_NET_ADMIN, and not in a user namespace".into()
        }
        _ => return None,
    })
}

/// Explains why a binding is invalid.
pub(super) fn invalid(link: &Link, queue: u32) -> String {
    let interface = &link.interface_name;
    match (queues(link), link.driver().as_deref()) {
        (Some(count), _) if queue >= count => {
            format!(
                "it has no queue {queue}: they are 0 to {} (`ethtool -l {interface}`)",
                count.saturating_sub(1)
            )
        }
        (None, _) if queue > 0 => {
            format!("it has no queue {queue}, perhaps (`ethtool -l {interface}` lists them)")
        }
        (_, Some("virtio_net")) => {
            "virtio_net does zero-copy only behind an IOMMU (in QEMU `iommu_platform=on`)".into()
        }
        (_, driver) => format!("{} refuses the pool's memory", driver.unwrap_or("the driver")),
    }
}

/// True if the interface has no such queue, as far as it says.
pub(super) fn lacks(link: &Link, queue: u32) -> bool {
    queues(link).is_none_or(|count| queue >= count) && queue > 0
}

/// True if the driver says that it has no zero-copy: a binding need not be tried, nor memory locked for it.
pub(super) fn never_zero_copy(link: &Link) -> bool {
    xdp_features(link.interface.index).is_ok_and(|features| !features.zero_copy)
}

/// True if the kernel reaches the memory of copied frames after the copy. Some drivers have only the headers copied, and read the rest from
/// the pool's pages (`IFF_TX_SKB_NO_LINEAR`). Stamps are written as the kernel frees a frame.
pub(super) fn copies_late(link: &Link, options: &XdpOptions) -> bool {
    options.timestamps || link.driver().as_deref() == Some("virtio_net")
}

/// Returns the number of queue pairs, if the driver tells.
fn queues(link: &Link) -> Option<u32> {
    let channels = Ethtool::open().and_then(|tool| tool.channels(&link.interface_name)).ok()?;
    Some(channels.combined + channels.rx.max(channels.tx))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a way in words.
    fn words(way: Way) -> String {
        let parts = [
            (true, if way.zero_copy { "zero-copy" } else { "copy" }),
            (way.multi_buffer, "several buffers a packet"),
            (way.aligned, "aligned memory"),
            (way.program, "with a program"),
        ];
        let parts: Vec<&str> = parts.into_iter().filter_map(|(is_so, text)| is_so.then_some(text)).collect();
        parts.join(", ")
    }

    fn path(mode: Mode, answer: impl Fn(Way) -> Option<(Step, i32)>) -> Vec<String> {
        let (mut way, mut tried) = (Some(Way::first(mode, false)), Vec::new());
        while let Some(now) = way {
            tried.push(words(now));
            way = answer(now).and_then(|(step, errno)| now.after(mode, step, Some(errno)));
            assert!(tried.len() < 20, "{tried:?}");
        }
        tried
    }

    #[test]
    fn a_driver_without_zero_copy_is_asked_twice() {
        let no = |way: Way| way.zero_copy.then_some((Step::Bind, EOPNOTSUPP));
        let both = ["zero-copy, several buffers a packet", "zero-copy"];
        assert_eq!(path(Mode::ZeroCopy, no), both);
        assert_eq!(path(Mode::Auto, no), [both[0], both[1], "copy, several buffers a packet"]);
        assert_eq!(path(Mode::Copy, no), ["copy, several buffers a packet"]);
    }

    #[test]
    fn a_driver_that_wants_a_program_gets_one() {
        let igb = |way: Way| match way {
            Way { zero_copy: true, multi_buffer: true, .. } => Some((Step::Bind, EOPNOTSUPP)),
            Way { zero_copy: true, program: false, .. } => Some((Step::Kick, EINVAL)),
            _ => None,
        };
        let tried = path(Mode::Auto, igb);
        assert_eq!(tried.last().map(String::as_str), Some("zero-copy, with a program"));
        assert_eq!(tried.len(), 3);
        let foreign = |way: Way| if way.program { Some((Step::Attach, EBUSY)) } else { igb(way) };
        assert_eq!(
            path(Mode::Auto, foreign).last().map(String::as_str),
            Some("copy, several buffers a packet")
        );
        assert_eq!(
            path(Mode::ZeroCopy, foreign).last().map(String::as_str),
            Some("zero-copy, with a program")
        );
    }

    #[test]
    fn a_driver_that_refuses_unaligned_memory_gets_aligned_memory() {
        let picky = |way: Way| (way.zero_copy && !way.aligned).then_some((Step::Bind, EINVAL));
        assert_eq!(path(Mode::Auto, picky).last().map(String::as_str), Some("zero-copy, aligned memory"));
        let never = |way: Way| way.zero_copy.then_some((Step::Bind, EINVAL));
        assert_eq!(
            path(Mode::Auto, never).last().map(String::as_str),
            Some("copy, several buffers a packet")
        );
    }

    #[test]
    fn a_queue_in_use_ends_the_search() {
        assert_eq!(path(Mode::Auto, |_| Some((Step::Bind, EBUSY))).len(), 1);
    }

    #[test]
    fn old_kernels_without_several_buffers_copy_from_one() {
        let old = |way: Way| way.multi_buffer.then_some((Step::Bind, EINVAL));
        assert_eq!(path(Mode::Copy, old), ["copy, several buffers a packet", "copy"]);
    }
}
