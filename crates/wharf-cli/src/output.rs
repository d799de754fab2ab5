//! Printing of tables, lines and reports as JSON (`print_json`). A reader that has gone away is no failure,
//! and never a panic.

use crate::fold::width;
use crate::log::{self, Level};
use crate::plain::{escaped, plain};
use crate::stream;
use crate::verbosity::{is_quiet, is_verbose};
use anstream::AutoStream;
use anyhow::Context;
use clap::ColorChoice;
use clap::builder::StyledStr;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use rustix::fs::fstat;
use rustix::process::{Resource, getrlimit};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Between groups of three digits: NARROW NO-BREAK SPACE.
const THIN_SPACE: &str = "\u{202f}";

/// Sets the choice of colours for the whole program.
pub(crate) fn set_color(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns help with its colours, if standard output takes them.
pub(crate) fn styled(help: &StyledStr) -> String {
    match AutoStream::choice(&std::io::stdout()) {
        anstream::ColorChoice::Never => help.to_string(),
        _ => help.ansi().to_string(),
    }
}

/// True if standard output is a capture.
static REPORTS_TO_STDERR: AtomicBool = AtomicBool::new(false);

/// Makes reports go to standard error, since standard output is a capture.
pub(crate) fn set_report_to_stderr(is_capture: bool) {
    REPORTS_TO_STDERR.store(is_capture, Relaxed);
}

/// Prints `text` and a new line to standard output, or to standard error where the former is a capture. A reader that closed it is no
/// error.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_styled(&plain(text))
}

/// Prints as [`print()`] does a text with colours, or one whose reader is a program.
pub(crate) fn print_styled(text: &str) -> anyhow::Result<()> {
    if is_one_stream() {
        stream::errors().finish(None);
    }
    if REPORTS_TO_STDERR.load(Relaxed) {
        return write(&mut std::io::stderr().lock(), text).context("cannot write to standard error");
    }
    write(&mut std::io::stdout().lock(), text).context("cannot write to standard output")
}

fn write(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Prints one JSON object.
pub fn print_json(object: &impl serde::Serialize) -> anyhow::Result<()> {
    print_styled(&escaped_json(&serde_json::to_string_pretty(object)?))
}

/// Returns one JSON object on one line.
pub(crate) fn json_line(object: &impl serde::Serialize) -> String {
    escaped_json(&serde_json::to_string(object).unwrap_or_default())
}

fn escaped_json(text: &str) -> String {
    escaped(text, |letter| format!("\\u{:04x}", u32::from(letter))).into()
}

/// True if reports and errors go to the same file: their texts share one stream, and none splits another.
pub(crate) fn is_one_stream() -> bool {
    let file = |fd: &dyn AsFd| fstat(fd).ok().map(|file| (file.st_dev, file.st_ino));
    REPORTS_TO_STDERR.load(Relaxed) || file(&std::io::stdout()) == file(&std::io::stderr())
}

/// The kernel's words for EFBIG, as the standard library shows them.
const FILE_TOO_LARGE: &str = "File too large (os error 27)";

/// The limit on the size of files that this process writes, bytes.
static FILE_LIMIT_BYTES: OnceLock<Option<u64>> = OnceLock::new();

/// Notes the limit on the size of files, for errors: a sandbox forbids the question later.
pub(crate) fn note_file_limit() {
    let _ = FILE_LIMIT_BYTES.set(getrlimit(Resource::Fsize).current);
}

/// Names the limit on the size of files behind an error of it: the kernel's words do not.
fn with_file_limit(line: String, limit_bytes: Option<u64>) -> String {
    let Some(limit_bytes) = limit_bytes.filter(|_| line.contains(FILE_TOO_LARGE)) else { return line };
    let limit = format!(
        "the limit on the size of files is {limit_bytes} bytes (`ulimit -f`, `LimitFSIZE=` of systemd)"
    );
    line.replacen(FILE_TOO_LARGE, &format!("{FILE_TOO_LARGE}: {limit}"), 1)
}

/// Prints an error: one line on standard error, whatever line breaks are in it.
pub(crate) fn complain(what: &str) {
    say(Level::Error, what);
}

/// Prints a line on standard error about trouble that the run survives, unless `--quiet` is given.
pub(crate) fn warn(what: &str) {
    if !is_quiet() {
        say(Level::Warning, what);
    }
}

/// Prints a note, one line on standard error, unless `--quiet` is given.
pub(crate) fn note(what: &str) {
    if !is_quiet() {
        say(Level::Note, what);
    }
}

/// Prints a detail with `--verbose`.
pub(crate) fn detail(what: impl FnOnce() -> String) {
    if is_verbose(1) {
        say(Level::Detail, &what());
    }
}

fn say(level: Level, what: &str) {
    let line: Vec<&str> = what.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = with_file_limit(plain(&line.join(" ")).into(), FILE_LIMIT_BYTES.get().copied().flatten());
    if log::is_on() {
        return log::record(level, &line);
    }
    let has_color =
        level == Level::Error && AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let name = if has_color { "\x1b[1;31mwharf:\x1b[0m" } else { "wharf:" };
    stream::say(format!("{name} {line}\n").as_bytes(), level == Level::Error);
}

/// Returns an error with its causes, without those that it names itself.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Prints help to standard error as it is.
pub(crate) fn complain_at_length(help: &str) {
    let _ = writeln!(std::io::stderr(), "{}", help.trim_end());
}

/// Makes a table without lines. Its columns but the first are aligned to the right.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header);
    }
    align(&mut table);
    table
}

fn align(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Makes a table whose cells are aligned to the left and wrapped to the terminal, or to 100 columns.
pub fn wrapped(header: &[&str]) -> Table {
    let mut table = table(header);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width());
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Left));
    table
}

/// A row of a table with a column for each run: its name, and the text of its cells.
pub(crate) type Row<T> = (&'static str, fn(&T) -> String);

/// Makes a table of `rows` with a column for each of `all`, whose names are in `header`, without rows that are empty. Without a header
/// it has no line of names.
pub(crate) fn columns<T>(header: &[&str], rows: &[Row<T>], all: &[&T]) -> Table {
    let mut table = table(header);
    for (name, show) in rows {
        let cells: Vec<String> = all.iter().map(|one| show(one)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.add_row(std::iter::once((*name).to_string()).chain(cells));
        }
    }
    align(&mut table);
    table
}

/// Returns a table's text without blanks at the ends of lines.
pub fn text(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Returns a number for standard output: its thousands are set apart where that is a terminal. A program that reads it gets plain digits.
pub(crate) fn grouped(number: u64) -> String {
    grouped_if(number, std::io::stdout().is_terminal())
}

/// Returns a number for standard error, as [`grouped`] does for standard output.
pub(crate) fn grouped_on_stderr(number: u64) -> String {
    grouped_if(number, std::io::stderr().is_terminal())
}

fn grouped_if(number: u64, is_terminal: bool) -> String {
    let digits = number.to_string();
    if !is_terminal {
        return digits;
    }
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let parts: Vec<String> = (!head.is_empty()).then(|| head.to_string()).into_iter().chain(groups).collect();
    parts.join(THIN_SPACE)
}

/// Returns a number as [`grouped`] does, and nothing for 0.
pub(crate) fn some(number: u64) -> String {
    if number == 0 { String::new() } else { grouped(number) }
}

/// Returns packets per second in a suitable unit, to three digits.
pub(crate) fn packet_rate(pps: f64) -> String {
    // A rate of seconds or minutes a packet is no rate of 0.
    if (1e-3..1.0).contains(&pps) { format!("{pps:.3} pps") } else { scaled(pps, "pps") }
}

/// Returns bits per second in a suitable unit, to three digits.
pub(crate) fn bit_rate(bps: f64) -> String {
    scaled(bps, "bit/s")
}

fn scaled(value: f64, unit: &str) -> String {
    // What three digits round up has the next prefix.
    match value {
        ..999.5 => format!("{value:.0} {unit}"),
        ..999.5e3 => format!("{} k{unit}", three_digits(value / 1e3)),
        ..999.5e6 => format!("{} M{unit}", three_digits(value / 1e6)),
        _ => format!("{} G{unit}", three_digits(value / 1e9)),
    }
}

fn three_digits(number: f64) -> String {
    let places = match number {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{number:.places$}")
}

/// Returns a byte queue limit: in packets where it counts those.
pub(crate) fn limit(in_bytes: u64, in_packets: u64) -> String {
    if in_packets > 0 { format!("{} packets", grouped(in_packets)) } else { bytes(in_bytes) }
}

/// Returns a number of bytes in a suitable unit.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..=9999 => format!("{count} B"),
        10_000..=9_999_999 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// Returns nanoseconds in a suitable unit.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..=9999 => format!("{ns} ns"),
        10_000..=999_999 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let io = || std::io::Error::other("disk full");
        assert_eq!(with_causes(&anyhow::Error::new(io()).context("cannot write")), "cannot write: disk full");
        assert_eq!(with_causes(&anyhow::Error::new(io()).context("x: disk full")), "x: disk full");
    }

    #[test]
    fn numbers_are_readable() {
        let on_terminal = [0, 12, 123, 1234, 1_234_567].map(|number| grouped_if(number, true));
        assert_eq!(on_terminal, ["0", "12", "123", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
        assert_eq!(grouped_if(1_234_567, false), "1234567");
        assert_eq!([0, 4096, 20_480, 1 << 30].map(bytes), ["0 B", "4096 B", "20.0 KiB", "1024.0 MiB"]);
        assert_eq!(
            [1, 12_345, 4_423_700, 12_345_678, 12_345_678_900].map(time),
            ["1 ns", "12.3 us", "4.4 ms", "12.3 ms", "12.35 s"]
        );
    }

    #[test]
    fn rates_are_in_fitting_units() {
        let packets =
            [0.0, 0.2, 313.4, 999.6, 1181.0, 20_000.0, 950_000.0, 999_700.0, 8_986_048.0, 148_800_000.0];
        assert_eq!(
            packets.map(packet_rate),
            [
                "0 pps",
                "0.200 pps",
                "313 pps",
                "1.00 kpps",
                "1.18 kpps",
                "20.0 kpps",
                "950 kpps",
                "1.00 Mpps",
                "8.99 Mpps",
                "149 Mpps"
            ]
        );
        let bits = [12.0, 64_000.0, 1_503_000.0, 43_161_000_000.0].map(bit_rate);
        assert_eq!(bits, ["12 bit/s", "64.0 kbit/s", "1.50 Mbit/s", "43.2 Gbit/s"]);
    }
}
