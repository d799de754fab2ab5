//! Calls of `wharf words` in the scripts of completions.

use clap_complete::Shell;

/// The place of devices, and of runs, in a script.
pub(crate) const DEVICES: &str = "@devices@";
pub(crate) const RUNS: &str = "@runs@";

/// Puts calls into the places of a script.
pub(super) fn called(script: &str, shell: Shell) -> String {
    let call = |kind: &str| match shell {
        Shell::Fish => format!("(wharf words {kind} 2>/dev/null)"),
        _ => format!("$(wharf words {kind} 2>/dev/null)"),
    };
    // Bash takes a colon for the end of a word.
    let colon = if shell == Shell::Bash { "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n" } else { "" };
    colon.to_string() + &script.replace(DEVICES, &call("devices")).replace(RUNS, &call("runs"))
}
