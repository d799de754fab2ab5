//! Options of what a run may do once its devices are open.

use clap::{Args, ValueEnum};

/// The user, and the system calls, of a run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Privileges")]
pub(crate) struct SandboxArgs {
    /// Run as this user and group, without capabilities, once all devices and files are open: names of /etc/passwd and /etc/group, or
    /// numbers [default group: the user's]. Only root can change the user. A device that goes away and needs a privilege cannot be opened
    /// again then, and a socket stays when the run ends if the user may not remove it
    #[arg(long, value_name = "USER[:GROUP]")]
    pub(crate) user: Option<String>,
    /// Let the kernel refuse system calls that a run does not need, once all devices and files are open: they fail with EPERM. Among these
    /// are those that execute a file, start or trace a process, load code, mount, or enter a namespace [default: on with --user, else off]
    #[arg(long, value_name = "SWITCH", value_enum)]
    pub(crate) seccomp: Option<Seccomp>,
}

/// The treatment of system calls that a run does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Seccomp {
    /// Refuse them
    On,
    /// Allow all
    Off,
}
