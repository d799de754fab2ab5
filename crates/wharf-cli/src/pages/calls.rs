//! Calls of `wharf words` in the scripts of completions.

use clap_complete::Shell;

/// The place of devices, and of runs, in a script.
pub(crate) const DEVICES: &str = "@devices@";
pub(crate) const RUNS: &str = "@runs@";
/// The place of files beside other words, in a script.
pub const FILES: &str = "@files@";

/// Puts calls into the places of a script.
pub(super) fn called(script: &str, shell: Shell) -> String {
    let call = |kind: &str| match shell {
        Shell::Fish => format!("(wharf words {kind} 2>/dev/null)"),
        _ => format!("$(wharf words {kind} 2>/dev/null)"),
    };
    let files = match shell {
        Shell::Fish => "(__fish_complete_path (commandline -ct))",
        Shell::Zsh => "$(print -rl -- ${PREFIX}*(N))",
        // Bash offers them where no other word fits.
        _ => "",
    };
    script.replace(DEVICES, &call("devices")).replace(RUNS, &call("runs")).replace(FILES, files)
}
