//! `wharf lab` and `wharf plan`.

#[path = "../../../../crates/wharf-cli/tests/common/programs/mod.rs"]
mod common;
mod lab;
mod lab_sweep;
mod manners;
mod plan;

use std::path::PathBuf;

/// Makes an empty folder for the test `name`.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wharf-lab-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
