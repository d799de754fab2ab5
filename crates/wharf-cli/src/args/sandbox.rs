//! Options of what a run may do once its devices are open.

use super::values::{Choice, choice};
use clap::{Args, ValueEnum};

/// The user, and the system calls, of a run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Privileges")]
pub(crate) struct SandboxArgs {
    /// Run as this user and group, without capabilities, once all devices and files are open: names of /etc/passwd and /etc/group, or
    /// numbers [default group: the user's]. Only root can change the user. A device that goes away and needs a privilege is then opened
    /// again only with --capabilities reopen. A socket stays when the run ends if the user may not remove it
    #[arg(long, value_name = "USER[:GROUP]")]
    pub(crate) user: Option<String>,
    /// Capabilities that a run keeps, once all devices and files are open: keep (all that it began with), drop (none), or reopen (only the
    /// thread that opens an interface again, wharf-reopen, keeps CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK, as far as it has
    /// them) [default: drop with --user, else keep]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub(crate) capabilities: Option<Capabilities>,
    /// Let the kernel refuse system calls that a run does not need, once all devices and files are open: they fail with EPERM. Among these
    /// are those that execute a file, start or trace a process, load code, mount, or enter a namespace [default: on with --user, else off]
    #[arg(long, value_name = "SWITCH", value_parser = choice(SECCOMP))]
    pub(crate) seccomp: Option<bool>,
}

/// The capabilities that a run keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Capabilities {
    /// All that it began with
    Keep,
    /// Those that opening an interface takes, in the thread that opens it again
    Reopen,
    /// None
    Drop,
}

/// States if the kernel refuses system calls that a run does not need.
const SECCOMP: &[Choice<bool>] = &[("on", "Refuse them", true), ("off", "Allow all", false)];
