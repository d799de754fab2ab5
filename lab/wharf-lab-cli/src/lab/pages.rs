//! `--report DIR`: writes the page and its pictures, with the properties of the machine.

use anyhow::Context;
use std::path::Path;
use wharf_cli::{files, machine};
use wharf_lab::report::{self, Machine, Section};

/// Makes the folder if there is none, and checks that files can be made in it.
pub(super) fn make(folder: &Path) -> anyhow::Result<()> {
    files::make_folder(folder)?;
    let probe = folder.join(format!(".report.{}", std::process::id()));
    let tried = files::write_page(&probe, b"written").and_then(|()| std::fs::remove_file(&probe));
    if tried.is_err() {
        // Made, but not written: on a full disk.
        let _ = std::fs::remove_file(&probe);
    }
    tried.with_context(|| format!("cannot write into {}", folder.display()))
}

/// Writes the files; `command` is the command line in the page's head.
pub(super) fn write(folder: &Path, sections: &[Section], command: &str) -> anyhow::Result<()> {
    let pages = report::files(sections, &Machine { facts: machine::facts(command) })?;
    let pages: Vec<(&str, &str)> =
        pages.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    files::write_report(folder, &pages)
}
