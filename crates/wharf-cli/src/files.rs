//! Files named on the command line: none that is read may be written, and none may be written twice at once.

use crate::{output, usage};
use anyhow::Context;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wharf_devices::pcap::format::Rotation;
use wharf_devices::pcap::{is_standard, spare};

/// A file, and the option that names it.
pub(crate) type Named<'a> = (&'static str, &'a Path);

/// Returns the file that is written first: a name with conversions of `strftime(3)` stands for several if
/// they take turns.
pub(crate) fn first_file(path: &Path, takes_turns: bool) -> PathBuf {
    if takes_turns { Rotation::first_file(path) } else { path.into() }
}

/// Checks that each of `written` is another file than `read` and the others. No capture goes on in the one
/// that is read.
pub(crate) fn check_written(read: Option<Named<'_>>, written: &[Option<Named<'_>>]) -> anyhow::Result<()> {
    let mut before: Vec<(Named<'_>, Identity, &str)> = Vec::new();
    check_standard(read, written)?;
    read.into_iter().for_each(|(_, path)| spare(path));
    before.extend(read.and_then(|named| Some((named, Identity::of(named.1)?, "is read"))));
    for &named in written.iter().flatten() {
        let Some(identity) = Identity::of(named.1) else { continue };
        if let Some(((other, _), _, what)) = before.iter().find(|(_, theirs, _)| *theirs == identity) {
            let (name, path) = (named.0, named.1.display().to_string());
            return Err(usage(format!("{name} {}: {other} {what}, and it is the same file", path)));
        }
        before.push((named, identity, "is written"));
    }
    Ok(())
}

/// Checks the standard streams among the files: captures are for other programs, not for people, and not every file can be a stream.
fn check_standard(read: Option<Named<'_>>, written: &[Option<Named<'_>>]) -> anyhow::Result<()> {
    let standard = |(name, path): Named<'_>| is_standard(path).then_some(name);
    let written: Vec<&str> = written.iter().flatten().filter_map(|named| standard(*named)).collect();
    match (read.and_then(standard), &written[..]) {
        (_, [.., name @ ("--trace" | "--mirror")]) => {
            Err(usage(format!("{name} -: want a file; ./- is one of that name")))
        }
        (_, [_, name, ..]) => Err(usage(format!("{name} -: standard output is written already"))),
        (Some(name), _) if stdin().is_terminal() => {
            Err(usage(format!("{name} -: standard input is a terminal: want a capture, as of tcpdump -w -")))
        }
        (_, [name]) if stdout().is_terminal() => {
            Err(usage(format!("{name} -: standard output is a terminal: pipe it, as into tcpdump -r -")))
        }
        (_, written) => {
            output::set_report_to_stderr(!written.is_empty());
            Ok(())
        }
    }
}

/// Creates the folder of `--report` and its parents, unless it exists.
pub fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(folder);
    anyhow::ensure!(made.is_ok() || !folder.exists(), "--report {}: want a folder", folder.display());
    made.with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes the files of a report into its folder, which is made unless it exists.
pub fn write_report(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    make_folder(folder)?;
    for (name, text) in files {
        let path = folder.join(name);
        write_page(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Opens the file of a page, or creates it: one that is there stays until the page is written. No link is
/// followed, and no reader of a fifo is waited for.
pub(crate) fn create_page(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a link: remove it, or name another folder"),
        _ => error,
    })
}

/// Writes a page, which takes the place of the file of that name in one step. A link of that name is replaced, not followed: another user
/// might have put it there.
pub fn write_page(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    // A killed process of the same number may have left one.
    let _ = fs::remove_file(beside);
    let mut file = File::create_new(beside)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(beside, path));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

/// Returns the command line of this process, with `folder` for that of its report.
pub fn command_line(folder: &str) -> String {
    let mut words = vec!["wharf".to_string()];
    let mut is_folder = false;
    for word in std::env::args_os().skip(1) {
        let word = word.to_string_lossy().into_owned();
        let shown = match word.strip_prefix("--report=") {
            _ if is_folder => folder.into(),
            Some(_) => format!("--report={folder}"),
            None if word.is_empty() || word.contains(|letter: char| !is_plain(letter)) => {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
            None => word.clone(),
        };
        is_folder = word == "--report";
        words.push(shown);
    }
    words.join(" ")
}

/// True for letters that a shell takes as they are.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_=.,:/+%@".contains(letter)
}

/// The identity of the file that a path names.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    There {
        device: u64,
        inode: u64,
    },
    /// A file to be created, by its directory and name.
    ToMake(PathBuf),
}

impl Identity {
    /// Returns none for anything but a file, such as a stream or `/dev/null`, and for a file that cannot be created.
    fn of(path: &Path) -> Option<Self> {
        if is_standard(path) {
            return None;
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {
                Some(Self::There { device: metadata.dev(), inode: metadata.ino() })
            }
            Ok(_) => None,
            Err(_) => {
                let parent = path.parent().filter(|parent| *parent.as_os_str() != *OsStr::new(""));
                let directory = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
                Some(Self::ToMake(directory.join(path.file_name()?)))
            }
        }
    }
}
