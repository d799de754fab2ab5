//! SIGINT and SIGTERM: the first ends a run with its summary, a second one ends the program.

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
            // In this order, so that the first signal finds the flag unset.
            signal_hook::flag::register_conditional_shutdown(signal, 1, asked.clone())
                .and_then(|_| signal_hook::flag::register(signal, asked.clone()))
                .context("cannot listen to signals")?;
        }
        Ok(Self(asked))
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
