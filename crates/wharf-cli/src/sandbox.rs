//! A run gives up, once its devices and files are open and before it reads what others write, its user, its capabilities, and
//! system calls that it does not need.
//!
//! A file that is executed gives no privilege from the start on, when the process has one thread: the kernel keeps that, and most
//! sets of capabilities, for each thread. User and filter are those of all threads at once.

mod filter;
mod user;

use crate::args::{SandboxArgs, Seccomp};
use crate::usage;
use anyhow::Context;
use filter::Filter;
use user::User;
use wharf_sys::credentials;

/// Privileges to give up.
#[derive(Debug)]
pub(crate) struct Sandbox {
    user: Option<User>,
    filter: Option<Filter>,
}

impl Sandbox {
    /// Checks that it can be had, before anything is opened and any thread is started.
    pub(crate) fn prepare(args: &SandboxArgs) -> anyhow::Result<Self> {
        let user = args.user.as_deref().map(User::find).transpose().map_err(usage)?;
        let filter = match args.seccomp {
            Some(Seccomp::On) => Some(Filter::new().context("--seccomp on")?),
            // A processor that the filter does not know is no reason to keep the user.
            None if user.is_some() => Filter::new().ok(),
            Some(Seccomp::Off) | None => None,
        };
        if let Some(user) = &user {
            let advice = "only root can change the user: start wharf as root, or leave out --user";
            anyhow::ensure!(credentials::is_root(), "--user {user}: {advice}");
            credentials::forbid_gains()
                .with_context(|| format!("--user {user}: cannot drop capabilities"))?;
        }
        Ok(Self { user, filter })
    }

    /// Gives it up, for good and in all threads.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        if let Some(user) = &self.user {
            let what =
                || format!("--user {user}: cannot change the user: that takes CAP_SETUID and CAP_SETGID");
            credentials::become_user(user.uid, user.gid).with_context(what)?;
        }
        match &self.filter {
            Some(filter) => {
                filter.install().context("cannot filter system calls: --seccomp off does without")
            }
            None => Ok(()),
        }
    }
}
