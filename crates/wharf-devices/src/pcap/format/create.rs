//! Creating the file of a capture: none that is read is emptied.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;

use wharf_mem::lock;
use wharf_sys::file::open_private;

use super::error::{PcapError, displayed, kind_name};

/// The files that are spared, by device and inode. They stay open: another file would get the number of one
/// that is deleted.
static SPARED: Mutex<Vec<(u64, u64, File)>> = Mutex::new(Vec::new());

/// Has no capture be written over the file at `path`, by whatever name: this process reads it.
pub fn spare(path: &Path) {
    // Opening another kind of file may wait or act.
    if let Ok(true) = fs::metadata(path).map(|of| of.is_file())
        && let Ok(file) = File::open(path)
        && let Ok(of) = file.metadata()
        && !is_spared(&of)
    {
        lock(&SPARED).push((of.dev(), of.ino(), file));
    }
}

fn is_spared(of: &Metadata) -> bool {
    lock(&SPARED).iter().any(|(device, inode, _)| (*device, *inode) == (of.dev(), of.ino()))
}

/// True if the file at `path` is spared.
pub(super) fn is_spared_at(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| is_spared(&of))
}

/// Creates a file, or empties the one that is there; see [`super::PcapWriter::create`].
pub fn create_file(path: &Path) -> Result<File, PcapError> {
    let file = open_file(path)?;
    empty(&file, path)?;
    Ok(file)
}

/// Works like [`create_file`], but leaves what is in the file.
pub(super) fn open_file(path: &Path) -> Result<File, PcapError> {
    let name = displayed(&path.to_string_lossy());
    if let Ok(of) = fs::symlink_metadata(path) {
        let kind = of.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            return Err(PcapError::NotRegular { file: name, kind: kind_name(kind), verb: "writes" });
        }
        if is_spared(&of) {
            return Err(PcapError::NotRegular {
                file: name,
                kind: "file that is read",
                verb: "writes other",
            });
        }
    }
    open_private(path).map_err(|cause| PcapError::Open { file: name, cause })
}

/// Empties a file.
pub(super) fn empty(file: &File, path: &Path) -> Result<(), PcapError> {
    let is_file = file.metadata().is_ok_and(|of| of.is_file() && of.len() > 0);
    let emptied = if is_file { file.set_len(0) } else { Ok(()) };
    emptied.map_err(|cause| PcapError::Open { file: displayed(&path.to_string_lossy()), cause })
}
