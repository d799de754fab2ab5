//! Records of a log on standard error, with `--log`: each has time, level, message and device.

use crate::stream;
use clap::ValueEnum;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, debug, error, info, warn};
use tracing_subscriber::fmt::{self, MakeWriter};

/// Formats of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
    Detail,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Names of the devices that were opened.
static DEVICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// True if lines are records of a log.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Starts the log. `--quiet` and `--verbose` say from which level on.
pub(crate) fn start(format: LogFormat, quiet: bool, verbose: u8) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    // If standard error is closed, there is nothing left to do. The subscriber would say so there, and panic.
    let log = fmt::fmt().with_max_level(level).with_target(false).log_internal_errors(false);
    let log = log.with_writer(ToStandardError);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    IS_ON.store(true, Relaxed);
}

/// Notes the name of a device, for the records that are about it.
pub(crate) fn note_device(name: &str) {
    if is_on() {
        wharf_mem::lock(&DEVICES).push(name.into());
    }
}

/// Writes a record.
pub(crate) fn record(level: Level, text: &str) {
    let devices = wharf_mem::lock(&DEVICES);
    let named = devices.iter().filter(|name| text.contains(name.as_str()));
    let device = named.max_by_key(|name| name.len()).map(String::as_str);
    match level {
        Level::Error => error!(device, "{text}"),
        Level::Warning => warn!(device, "{text}"),
        Level::Note => info!(device, "{text}"),
        Level::Detail => debug!(device, "{text}"),
    }
}

/// Makes writers of whole records.
struct ToStandardError;

impl<'a> MakeWriter<'a> for ToStandardError {
    type Writer = Records;

    fn make_writer(&'a self) -> Records {
        Records { are_errors: false }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Records {
        Records { are_errors: *about.level() == tracing::Level::ERROR }
    }
}

struct Records {
    are_errors: bool,
}

impl Write for Records {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        stream::say(record, self.are_errors);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
