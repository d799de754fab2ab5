//! A run gives up, once its devices and files are open and before it reads what others write, its user, its capabilities, and
//! system calls that it does not need.
//!
//! A file that is executed gives no privilege from the start on, when the process has one thread: the kernel keeps that, and most
//! sets of capabilities, for each thread. User and filter are those of all threads at once, and each thread is made to drop its
//! capabilities.

mod filter;
mod user;

pub(crate) use user::group;

use crate::args::{Capabilities, SandboxArgs};
use crate::output::warn;
use crate::usage;
use anyhow::Context;
use filter::Filter;
use user::User;
use wharf_devices::reopen::INTERFACE_THREAD;
use wharf_sys::credentials;

/// Capabilities that opening an interface takes (linux/capability.h): CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF.
const OPENING: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

/// Privileges to give up.
#[derive(Debug)]
pub(crate) struct Sandbox {
    user: Option<User>,
    capabilities: Capabilities,
    filter: Option<Filter>,
}

/// Checks the options. Returns the user to become, if there is one, and the capabilities to keep.
pub(crate) fn check(args: &SandboxArgs) -> anyhow::Result<(Option<User>, Capabilities)> {
    let user = args.user.as_deref().map(User::find).transpose().map_err(usage)?;
    let by_default = if user.is_some() { Capabilities::Drop } else { Capabilities::Keep };
    let capabilities = args.capabilities.unwrap_or(by_default);
    match user.is_some() && capabilities == Capabilities::Keep {
        true => Err(usage("--capabilities keep: --user takes them: want reopen or drop")),
        false => Ok((user, capabilities)),
    }
}

impl Sandbox {
    /// Checks that it can be had, before anything is opened and any thread is started.
    pub(crate) fn prepare(args: &SandboxArgs) -> anyhow::Result<Self> {
        let (user, capabilities) = check(args)?;
        let filter = match args.seccomp {
            Some(true) => Some(Filter::new().context("--seccomp on")?),
            // A processor that the filter does not know is no reason to keep the user.
            None if user.is_some() => Filter::new().ok(),
            Some(false) | None => None,
        };
        if let Some(user) = &user {
            let advice = "only root can change the user: start wharf as root, or leave out --user";
            anyhow::ensure!(rustix::process::geteuid().is_root(), "--user {}: {advice}", user.text);
        }
        let is_bounded = filter.is_some() || capabilities != Capabilities::Keep;
        if user.is_none() && is_bounded && rustix::process::geteuid().is_root() {
            let files = "any file of root's for writing, /proc/self/mem too";
            warn(&format!("as user 0 a run may still open {files}: --user stops that"));
        }
        if capabilities != Capabilities::Keep {
            credentials::forbid_gains().context("cannot drop capabilities")?;
        }
        if user.is_some() && capabilities == Capabilities::Reopen {
            rustix::thread::set_keep_capabilities(true)
                .context("--capabilities reopen: cannot keep them over --user")?;
        }
        Ok(Self { user, capabilities, filter })
    }

    /// Gives it up, for good and in all threads.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        if let Some(user) = &self.user {
            let why = "cannot change the user: that takes CAP_SETUID and CAP_SETGID";
            let what = || format!("--user {}: {why}", user.text);
            let change = match self.capabilities {
                Capabilities::Reopen => credentials::change_user,
                Capabilities::Keep | Capabilities::Drop => credentials::become_user,
            };
            change(user.uid, user.gid).with_context(what)?;
        }
        let kept = match self.capabilities {
            Capabilities::Keep => None,
            Capabilities::Reopen => Some(OPENING),
            Capabilities::Drop => Some(0),
        };
        kept.map(|kept| credentials::restrict_capabilities(INTERFACE_THREAD, kept))
            .transpose()
            .context("cannot drop capabilities")?;
        match &self.filter {
            Some(filter) => {
                filter.install().context("cannot filter system calls: --seccomp off does without")
            }
            None => Ok(()),
        }
    }
}
