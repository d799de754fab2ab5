//! Options for devices that stall or go.

use super::values::{self, Choice};
use clap::{Args, ValueEnum};
use std::time::Duration;
pub(crate) use wharf_devices::reopen::OnGone;
use wharf_devices::spec::Kind;

/// Treatment of devices that fail a run.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "When a device fails")]
pub(crate) struct RecoveryArgs {
    /// Treatment of an interface or a peer that has gone
    #[arg(long, value_name = "WAY", value_parser = values::choice(ON_GONE), default_value = "reopen")]
    pub(crate) on_gone: OnGone,
    /// Treatment of a stalled device, one that has packets and completes none for 10 s, though its line is up
    /// [default: reset; report for vhost-user, whose machine may be paused]
    #[arg(long, value_name = "WAY", value_enum)]
    pub(crate) on_stall: Option<OnStall>,
    /// End with an error if a device completes no packet for this time, though it has some, or its line is down and drops them, or it is
    /// away for as long. At least 100ms, and longer than the device takes for one packet, such as 30s
    #[arg(long, value_name = "TIME", value_parser = values::seconds_from(values::GIVE_UP_MS_MIN))]
    pub(crate) give_up: Option<Duration>,
}

impl RecoveryArgs {
    /// Returns the treatment of a stalled device of this kind: that is a fault, unless its other side may
    /// pause.
    pub(crate) fn on_stall(&self, kind: &Kind) -> OnStall {
        self.on_stall.unwrap_or(if kind.may_pause { OnStall::Report } else { OnStall::Reset })
    }
}

/// Ways to treat a device that has gone.
pub(super) const ON_GONE: &[Choice<OnGone>] = &[
    (
        "reopen",
        "Open it again once it is back, and go on; packets wait meanwhile. A TAP is made again at once",
        OnGone::Reopen,
    ),
    ("fail", "End with an error", OnGone::Fail),
];

/// Ways to treat a device that stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStall {
    /// Close it, and open it again; packets that it had are lost
    Reset,
    /// Say so, and wait
    Report,
    /// End with an error
    Fail,
}
