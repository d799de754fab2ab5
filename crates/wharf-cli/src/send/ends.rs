//! The ends of a run, as they are asked for.

use crate::args::SendArgs;
use crate::usage;
use std::time::Duration;
use wharf_core::engine::Batching;
use wharf_devices::pcap::is_stream;
use wharf_tools::traffic::Pace;

/// Length of a run that nothing else ends.
const DEFAULT_TIME: Duration = Duration::from_secs(1);

/// The ends of runs, and whether runs are compared.
pub(super) struct Ends {
    pub(super) rounds: u64,
    pub(super) time: Option<Duration>,
    compares: bool,
    pub(super) is_endless: bool,
}

/// Returns the pace of all senders but that of the sparse flow. A capture goes at its own by default, unless
/// it stays in this process or becomes another capture.
pub(super) fn pace(args: &SendArgs) -> Pace {
    let leaves = !args.to.kind().can.stays_inside && args.to.file().is_none();
    let default = if args.pcap.is_some() && leaves { Pace::ORIGINAL } else { Pace::Top };
    args.rate.unwrap_or(default)
}

impl Ends {
    pub(super) fn new(args: &SendArgs) -> anyhow::Result<Self> {
        let is_inside = args.to.kind().can.stays_inside;
        let pace = pace(args);
        let at_top = pace.is_top();
        let is_counted = args.rounds.is_some() || args.count.is_some();
        let is_bounded = is_counted || args.seconds.is_some();
        if args.pcap.is_none() && pace.is_captured() {
            return Err(usage("--rate original: generated packets have no time stamps; it is for --pcap"));
        }
        let gap = [(args.loop_gap, "--loop-gap"), (args.max_gap, "--max-gap")];
        if let Some((_, name)) = gap.iter().find(|(gap, _)| gap.is_some() && !pace.is_captured()) {
            return Err(usage(format!(
                "{name}: it is for a capture at its own pace (--rate original, or 2x)"
            )));
        }
        // Devices that leave this process are sent to until a signal; a file would fill the disk.
        let is_endless = !is_bounded && args.pcap.is_none() && !is_inside;
        if is_endless && args.to.file().is_some_and(|path| !is_stream(path)) {
            return Err(usage("say how much to generate into a file: --count N or --seconds S"));
        }
        let is_stream = args.pcap.as_deref().is_some_and(is_stream);
        let once = !is_bounded && args.pcap.is_some() && (is_stream || !(is_inside && at_top));
        let time = if is_bounded || is_endless || once { args.seconds } else { Some(DEFAULT_TIME) };
        let rounds = args.rounds.unwrap_or(if once { 1 } else { u64::MAX });
        let is_endless =
            is_endless || (args.rounds == Some(u64::MAX) && time.is_none() && args.count.is_none());
        Ok(Self {
            rounds,
            time,
            is_endless,
            compares: is_inside && at_top && !is_stream && !is_counted && args.wrap.trace.is_none(),
        })
    }

    pub(super) fn batchings(&self) -> Vec<Batching> {
        if self.compares { vec![Batching::On, Batching::Off] } else { vec![Batching::On] }
    }
}
