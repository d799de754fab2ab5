//! Files that a command line names: what is read is not to be written over, nor one file written twice at once.

use crate::usage;
use anyhow::Context;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, and what on the command line names it.
pub(crate) type Named<'a> = (&'static str, &'a Path);

/// Whether each of `written` is another file than `read` and the other ones; a wrong use otherwise.
pub(crate) fn check_written(read: Option<Named<'_>>, written: &[Option<Named<'_>>]) -> anyhow::Result<()> {
    let mut before: Vec<(Named<'_>, Identity, &str)> = Vec::new();
    before.extend(read.and_then(|named| Some((named, Identity::of(named.1)?, "is read"))));
    for &named in written.iter().flatten() {
        let Some(identity) = Identity::of(named.1) else { continue };
        if let Some(((other, _), _, what)) = before.iter().find(|(_, theirs, _)| *theirs == identity) {
            let (name, path) = (named.0, named.1.display().to_string());
            return Err(usage(format!(
                "{name} {}: {other} {what}, and it is the same file",
                path.escape_debug()
            )));
        }
        before.push((named, identity, "is written"));
    }
    Ok(())
}

/// Makes the folder of `--report`, and those above it, unless it is there.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(folder);
    anyhow::ensure!(made.is_ok() || !folder.exists(), "--report {}: want a folder", folder.display());
    made.with_context(|| format!("cannot make {}", folder.display()))
}

/// Which file a path names.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    There {
        device: u64,
        inode: u64,
    },
    /// It is yet to be made, by its directory and name.
    ToMake(PathBuf),
}

impl Identity {
    /// None for what is no file, such as `/dev/null`, or cannot be made.
    fn of(path: &Path) -> Option<Self> {
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
