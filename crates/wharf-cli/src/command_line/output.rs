//! Options of every command: the amount of output on standard error, and colours.

use crate::log::{self, LogFormat};
use crate::verbosity;
use clap::{ArgAction, Args, ColorChoice};
use std::ffi::OsString;

/// The amount of output on standard error, and colours.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print no live line and no notes on standard error; errors stay
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print what is opened, with mode, queues and rings; given twice, also each repetition of a note
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Print notes and errors as records of a log (time, level, device, text), once the command line has been read
    #[arg(long, value_name = "FORMAT", global = true, value_enum)]
    log: Option<LogFormat>,
    /// Colours in help and errors: auto takes a terminal without NO_COLOR in its environment for one that has them
    #[arg(long, value_name = "WHEN", global = true, value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl OutputArgs {
    /// Sets the amount of output, and starts the log if one was asked for.
    pub(crate) fn start(self) {
        verbosity::set(self.quiet, self.verbose);
        if let Some(format) = self.log {
            log::start(format, self.quiet, self.verbose);
        }
    }
}

/// Returns the choice of colours among `words`, which need not be a valid command line.
pub(super) fn color_of(words: &[OsString]) -> ColorChoice {
    let words = || words.iter().map(|word| word.to_string_lossy());
    let inline = words().find_map(|word| word.strip_prefix("--color=").map(str::to_string));
    let next = || words().skip_while(|word| word != "--color").nth(1).map(|word| word.to_string());
    let choice = inline.or_else(next).unwrap_or_default();
    choice.parse().unwrap_or(ColorChoice::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_of_colours_is_found_in_any_command_line() {
        let of = |text: &str| color_of(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("wharf fly --color never"), ColorChoice::Never);
        assert_eq!(of("wharf --color=always send"), ColorChoice::Always);
        for other in ["wharf send", "wharf --color", "wharf --color mauve"] {
            assert_eq!(of(other), ColorChoice::Auto, "{other}");
        }
    }
}
