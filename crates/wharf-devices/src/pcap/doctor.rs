//! Findings about `pcap:`, for a diagnosis.

use super::is_stream;
use crate::doctor::finding::Finding;
use crate::doctor::{Doctor, Effect};
use crate::spec::{DeviceSpec, Direction};
use std::fs::OpenOptions;
use std::path::Path;

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect };

/// Returns what keeps a capture from being written, as far as that shows without writing one.
fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    let path = Path::new(spec.place());
    if is_stream(path) {
        return vec![Finding::fact("file", "a stream: it is opened when its other end is there")];
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(missing) = folder.filter(|folder| !folder.is_dir()) {
        let shown = missing.display().to_string();
        let what = format!("there is no directory {}", shown.escape_debug());
        return vec![Finding::obstacle("file", Direction::Both, what).mend(format!("mkdir -p {shown}"))];
    }
    if !path.exists() {
        let what = "there is no such file: it can be written, not read";
        return vec![Finding::obstacle("file", Direction::Receive, what)];
    }
    match OpenOptions::new().append(true).open(path) {
        Ok(_) => vec![Finding::fact("file", "the file exists: sending replaces what is in it")],
        Err(error) => {
            vec![Finding::obstacle("file", Direction::Send, format!("the file cannot be written: {error}"))]
        }
    }
}

fn effect(spec: &DeviceSpec, direction: Direction) -> Effect {
    let is_stream = is_stream(Path::new(spec.place()));
    match direction {
        Direction::Receive if !is_stream => Effect::None,
        Direction::Receive => Effect::Lasting("what is read from a stream is gone".into()),
        Direction::Send | Direction::Both => Effect::Lasting("opening it would empty the file".into()),
    }
}
