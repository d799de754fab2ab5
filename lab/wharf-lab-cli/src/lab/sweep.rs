//! `wharf lab sweep`: a grid of runs, a line of JSON for each, to a file that records the finished points.

use crate::args::LabSweepArgs;
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use wharf_cli::progress::Progress;
use wharf_cli::signals::Signals;
use wharf_cli::usage;
use wharf_lab::experiment::sweep::{self, Identity, Point};
use wharf_lab::experiment::{LabError, Report, Request, Row, World};

/// One line. The keys are a promise.
#[derive(Debug, Serialize)]
struct Line<'a> {
    point: usize,
    #[serde(flatten)]
    identity: &'a Identity,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<&'a [Row]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn sweep(args: &LabSweepArgs) -> anyhow::Result<()> {
    let base = Request {
        name: args.name.clone(),
        world: args.world,
        threads: args.threads.clone(),
        duration_ns: args.seconds.map(|seconds| seconds.as_nanos() as u64),
        device: None,
        ..Request::default()
    };
    let grid = sweep::grid(&base, &args.set, &args.seeds).map_err(usage)?;
    let (which, of) = args.part.unwrap_or((1, 1));
    let points: Vec<Point> = grid.into_iter().skip(which - 1).step_by(of).collect();
    let mut identities = BTreeMap::new();
    for point in &points {
        identities.insert(point.number, point.identity().map_err(usage)?);
    }
    let mut out = Out::open(args.out.as_deref(), &identities)?;
    let left: Vec<Point> =
        points.iter().filter(|point| !out.lines.contains_key(&point.number)).cloned().collect();
    let is_host = identities.values().any(|identity| identity.world == World::Host);
    let jobs = args.jobs.map_or_else(|| if is_host { 1 } else { processors() }, usize::from);
    carry_out(&left, jobs, &identities, &mut out)?;
    out.finish(points.len())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the remaining points, and writes a line as each is done.
fn carry_out(
    left: &[Point], jobs: usize, identities: &BTreeMap<usize, Identity>, out: &mut Out,
) -> anyhow::Result<()> {
    let (signals, progress) = (Signals::listen()?, Mutex::new(Progress::begin()));
    let total = out.lines.len() + left.len();
    let mut failed = None;
    let say = |_: &str| !signals.asked();
    sweep::run_each(left, jobs, &say, &mut |point, result| {
        if result.as_ref().is_ok_and(|report| report.interrupted) {
            return false;
        }
        let written =
            line_of(point, &identities[&point.number], &result).and_then(|line| out.add(point.number, &line));
        if let Ok(progress) = progress.lock() {
            progress.say(|| format!("{} of {total} points", out.lines.len()));
        }
        failed = written.err();
        failed.is_none()
    });
    failed.map_or(Ok(()), Err)
}

fn line_of(point: &Point, identity: &Identity, result: &Result<Report, LabError>) -> anyhow::Result<String> {
    let rows = result.as_ref().ok().map(|report| &report.rows[..]);
    let error = result.as_ref().err().map(ToString::to_string);
    Ok(serde_json::to_string(&Line { point: point.number, identity, rows, error })?)
}

/// The output, and the lines in it.
struct Out {
    file: Option<(File, PathBuf)>,
    /// The line of each finished point; without a file, only the numbers are kept.
    lines: BTreeMap<usize, String>,
    failed: usize,
}

impl Out {
    /// Opens standard output, or a file whose lines must be of this sweep; failed points are run again. The
    /// rest of a line that a killed sweep left is cut off.
    fn open(path: Option<&Path>, identities: &BTreeMap<usize, Identity>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self { file: None, lines: BTreeMap::new(), failed: 0 }) };
        let shown = path.display();
        let (mut file, target) = one_of_ours(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let text = std::str::from_utf8(&bytes[..whole]).ok();
        let Some(text) = text else { bail!("{shown} is no text: give another --out") };
        let mut out = Self { file: None, lines: BTreeMap::new(), failed: 0 };
        for (at, line) in text.lines().enumerate() {
            let number = point_of(line, identities).with_context(|| format!("{shown}:{}", at + 1))?;
            // A failed point is run again; its new result stands further down.
            match has_error(line) {
                true => drop(out.lines.remove(&number)),
                false => drop(out.lines.insert(number, line.to_string())),
            }
        }
        file.set_len(whole as u64).with_context(|| format!("cannot write {shown}"))?;
        file.seek(SeekFrom::End(0)).with_context(|| format!("cannot write {shown}"))?;
        out.file = Some((file, target));
        Ok(out)
    }

    /// Adds a line, whole or not at all.
    fn add(&mut self, number: usize, line: &str) -> anyhow::Result<()> {
        self.failed += usize::from(has_error(line));
        let Some((file, path)) = &mut self.file else {
            self.lines.insert(number, String::new());
            return wharf_cli::output::print(line);
        };
        file.write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.lines.insert(number, line.to_string());
        Ok(())
    }

    /// Sorts the lines of a finished sweep; reports the points that an unfinished one lacks.
    fn finish(self, points: usize) -> anyhow::Result<()> {
        let (done, failed) = (self.lines.len(), self.failed);
        if done < points {
            let again =
                if self.file.is_some() { "run it again to go on" } else { "give --out to go on later" };
            bail!("{done} of {points} points done: {again}");
        }
        if let Some((_file, path)) = &self.file {
            let text: String = self.lines.values().map(|line| format!("{line}\n")).collect();
            replace(path, &text)?;
        }
        if failed > 0 {
            bail!("{failed} of {points} points failed: their lines say why");
        }
        Ok(())
    }
}

/// Opens the file and locks it: two sweeps at once would lose each other's points. Returns its real path,
/// too, since it is replaced in the end and a link must stay one.
fn one_of_ours(path: &Path) -> anyhow::Result<(File, PathBuf)> {
    let shown = path.display();
    // Opening a pipe would block, and a device would be replaced by a file.
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        bail!("{shown} is no file that can be gone on with: give a file, or no --out for standard output");
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.with_context(|| format!("cannot open {shown}"))?;
    let target = path.canonicalize().with_context(|| format!("cannot open {shown}"))?;
    // On a file system without locks, the user must not start two sweeps.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        bail!("{shown} is being written by another sweep: give each its own --out");
    }
    // Between open and lock another sweep may have ended, and put its sorted points into a new file.
    let (opened, there) = (file.metadata(), target.metadata());
    match (opened, there) {
        (Ok(opened), Ok(there)) if (opened.dev(), opened.ino()) == (there.dev(), there.ino()) => {
            Ok((file, target))
        }
        _ => bail!("{shown} was replaced meanwhile: run it again"),
    }
}

/// Replaces a file atomically, so that a kill leaves one or the other.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let shown = path.display();
    let done = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    let done = done.with_context(|| {
        format!("{shown} has all points, but cannot be put in order by a new file beside it; run it again")
    });
    if done.is_err() {
        // It is of no use, and takes space on a full disk; the points themselves are unchanged.
        let _ = std::fs::remove_file(&beside);
    }
    done
}

fn has_error(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|value| value.get("error").is_some())
}

/// Returns the point of a line, if it is of this sweep.
fn point_of(line: &str, identities: &BTreeMap<usize, Identity>) -> anyhow::Result<usize> {
    let value: Value = serde_json::from_str(line).context("no line of a sweep: give another --out")?;
    let number = value.get("point").and_then(Value::as_u64).map(|number| number as usize);
    let wanted = number.and_then(|number| Some((number, identities.get(&number)?)));
    let Some((number, identity)) = wanted else {
        bail!("a point that is not of this sweep: give another --out");
    };
    let Value::Object(wanted) = serde_json::to_value(identity)? else { bail!("no object") };
    match wanted.iter().find(|(key, wanted)| value.get(key.as_str()) != Some(wanted)) {
        None => Ok(number),
        Some((key, wanted)) => {
            bail!("{key} is not {wanted}: of another sweep, or another version; give another --out")
        }
    }
}
