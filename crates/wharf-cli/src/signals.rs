//! SIGINT and SIGTERM end a run with its summary, within half a second. A second signal adds nothing: it often is
//! the first once more, sent to the process and to its group.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody wants an end.
#[derive(Debug, Clone)]
pub(crate) struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, asked.clone()).context("cannot listen to signals")?;
        }
        Ok(Self(asked))
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
