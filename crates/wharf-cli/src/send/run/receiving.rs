//! The far end of a wire: a thread that receives and checks until nothing more will come, or until it is told to end.

use super::{RECEIVER_FRAMES, check, cpu_of, pool};
use crate::processor::{Meter, ProcessorTime};
use crate::progress::Progress;
use crate::send::plan::Plan;
use crate::session::{joined, start};
use crate::signals::Signals;
use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wharf::device::DeviceError;
use wharf::{Direction, Port, RecvError};
use wharf_core::poller::Mode;
use wharf_tools::traffic::{Findings, Receiver, Until, receiving};

/// Longest time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(1);
/// Time after a signal in which arrivals may still be checked.
const GRACE: Duration = Duration::from_millis(50);
/// The same, once the last frame must have arrived.
const SLACK: Duration = Duration::from_secs(1);
/// Shorter waits are not announced.
const SILENT: Duration = Duration::from_millis(100);

/// The receiving thread.
pub(super) struct Receiving {
    thread: JoinHandle<Result<(Findings, Option<ProcessorTime>), RecvError>>,
    /// Asks for the end at once.
    end: Arc<AtomicBool>,
    /// Time that a frame takes on the wire.
    delay: Duration,
}

/// The findings of the thread.
pub(super) struct Received {
    pub(super) findings: Findings,
    /// True if it was ended with frames still on the way.
    pub(super) is_cut: bool,
    /// Processor time of the thread, if it had no time to wait for frames.
    pub(super) time: Option<ProcessorTime>,
}

impl Receiving {
    /// Receives from the other end of `port`, where a frame arrives `delay` after it has left.
    pub(super) fn start(plan: &Plan, port: &Port, delay: Duration) -> anyhow::Result<Self> {
        let pool = pool(plan, plan.frames_within(RECEIVER_FRAMES))?;
        let far_end = port.far_end_builder(Direction::Receive)?.pool(&pool);
        let far_end = receiving(far_end, Mode::default()).build()?;
        let receiver = Receiver::new(&far_end, Mode::default(), check(plan))?;
        let end = Arc::new(AtomicBool::new(false));
        let asked = end.clone();
        let receive = move || {
            let (mut receiver, meter) = (receiver, Meter::of_thread());
            let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
            let survives = |_: &DeviceError| false;
            let until =
                Until { stop: &stop, end: &asked, count: u64::MAX, received: &received, survives: &survives };
            receiver.run_until(&until)?;
            let (seconds, load_share) = receiver.load();
            let time = meter.elapsed().if_loaded(seconds, load_share);
            let findings = receiver.into_check().findings().clone();
            // Its unread frames go back to the sender.
            far_end.close(Duration::ZERO);
            Ok((findings, time))
        };
        let thread = start("wharf-receiver", cpu_of(plan, plan.threads().into()), receive)?;
        Ok(Self { thread, end, delay })
    }

    /// Waits for frames on the wire once the senders' device is closed: for its delay at most, or until a signal.
    pub(super) fn finish(self, signals: &Signals) -> anyhow::Result<Received> {
        let is_cut = !self.ends_by_itself(signals);
        self.end.store(true, Ordering::Release);
        let (findings, time) = joined(self.thread)?.context("receiver")?;
        Ok(Received { findings, is_cut, time })
    }

    /// Returns false if the thread has to be told to end.
    fn ends_by_itself(&self, signals: &Signals) -> bool {
        let (progress, began) = (Progress::begin(), Instant::now());
        let (mut until, mut asked) = (began + self.delay + SLACK, false);
        while !self.thread.is_finished() {
            let now = Instant::now();
            if signals.asked() && !asked {
                (until, asked) = (until.min(now + GRACE), true);
            }
            if now >= until {
                return false;
            }
            if now - began >= SILENT {
                progress.say(|| {
                    let left = (until - now).as_secs_f64();
                    format!("waiting for what is on the wire, {left:.1} s at most; a signal ends it")
                });
            }
            std::thread::sleep(LOOK);
        }
        true
    }
}
