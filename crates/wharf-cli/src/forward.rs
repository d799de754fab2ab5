//! `wharf forward`.

mod account;
mod live;
mod run;
mod table;
mod tell;

use crate::args::ForwardArgs;
use crate::output;
use crate::signals::Signals;
use anyhow::anyhow;

/// Forwards, prints the summary, and returns an error if anything went wrong.
pub(crate) fn forward(args: &ForwardArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let signals = Signals::listen()?;
    let outcome = run::run(args, &signals)?;
    match args.json {
        true => output::print_json(&outcome.report)?,
        false => output::print(table::summary(&outcome).trim_end())?,
    }
    if outcome.faults.is_empty() { Ok(()) } else { Err(anyhow!(outcome.faults.join("; "))) }
}
