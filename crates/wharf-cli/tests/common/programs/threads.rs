//! A process that may have few threads: each run does with those that there are, or ends with a line.

use super::{Done, PROGRAM, command, finish};
use std::process::{Command, Stdio};

/// Runs `wharf` as a user that may have `threads`, for 40 s at most; `None` where this user may not become another one,
/// or that one cannot reach the command.
fn with(threads: u32, args: &[&str]) -> Option<Done> {
    // Another user's processes count, too, so this one has none.
    let user = format!("--reuid={}", 1_000_000_000 + std::process::id());
    let mut run = Command::new("setpriv");
    run.args([&user, "--regid=65534", "--clear-groups", "prlimit"]).arg(format!("--nproc={threads}"));
    run.arg(command(args).get_program()).args(args).current_dir("/");
    let mut bound = Command::new("timeout");
    bound.args(["--kill-after=1", "40"]).arg(run.get_program()).args(run.get_args()).current_dir("/");
    bound.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(bound.spawn().ok()?);
    let is_refused =
        done.stderr.starts_with("setpriv: ") || done.stderr.starts_with("prlimit: failed to execute");
    (!is_refused).then_some(done)
}

/// Asserts that too few threads are no panic and no hang. Each case is a command line, and the most threads that it is given.
pub fn assert_few_threads_will_do(cases: &[(&[&str], u32)]) {
    let mut bad = Vec::new();
    for &(args, most) in cases {
        for threads in 1..=most {
            let Some(done) = with(threads, args) else {
                println!("skipped: only root may become another user, which must reach {}", PROGRAM);
                return;
            };
            let is_line = || done.stderr.starts_with("wharf: ") && done.stderr.lines().count() == 1;
            if done.code != Some(0) && !(done.code == Some(1) && is_line()) {
                bad.push(format!("{threads} threads, {}: {:?} {}", args.join(" "), done.code, done.stderr));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
