//! Notes the commit and the compiler for `wharf --version`. Without git the commit is left out.

use std::env;
use std::path::Path;
use std::process::Command;

/// File that `cargo package` adds; it names the commit.
const VCS_INFO: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = commit_of_package().or_else(commit_of_checkout).unwrap_or_default();
    let compiler = output(&env::var("RUSTC").unwrap_or_else(|_| "rustc".into()), &["--version"]);
    println!("cargo:rustc-env=WHARF_COMMIT={commit}");
    println!("cargo:rustc-env=WHARF_RUSTC={}", compiler.unwrap_or_else(|| "an unknown compiler".into()));
    println!("cargo:rustc-env=WHARF_OPT_LEVEL={}", env::var("OPT_LEVEL").unwrap_or_default());
    println!("cargo:rustc-env=WHARF_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// Returns the commit of which a package was made: `"sha1": "..."`.
fn commit_of_package() -> Option<String> {
    let text = std::fs::read_to_string(VCS_INFO).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(short)
}

/// Returns the commit of the checkout, if git tracks this file there: a package may lie inside another repository.
fn commit_of_checkout() -> Option<String> {
    output("git", &["ls-files", "--error-unmatch", "build.rs"])?;
    // Each commit adds a line there, on any branch.
    let log = output("git", &["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    output("git", &["rev-parse", "HEAD"]).map(|commit| short(&commit))
}

fn short(commit: &str) -> String {
    commit.chars().filter(char::is_ascii_hexdigit).take(12).collect()
}

/// Returns the first line of a program's output, if it succeeds.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let done = Command::new(program).args(args).output().ok().filter(|done| done.status.success())?;
    String::from_utf8(done.stdout).ok()?.lines().next().map(str::to_string)
}
