//! Arguments of `wharf completions` and `wharf man`.

use clap::{Args, ValueEnum};

/// `wharf completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  source <(wharf completions bash)
      completes in this shell
  wharf completions bash > ~/.local/share/bash-completion/completions/wharf
  wharf completions zsh > /usr/local/share/zsh/site-functions/_wharf
  wharf completions fish > ~/.config/fish/completions/wharf.fish";

/// Shells for which there are completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `wharf man`.
#[derive(Debug, Args)]
#[command(after_help = MAN)]
pub(crate) struct ManArgs {
    /// Command, such as send or lab run: prints its page. A folder that exists: writes the pages of all commands into it
    #[arg(value_name = "COMMAND|DIR")]
    pub(crate) what: Vec<String>,
}

const MAN: &str = "\
Examples:
  wharf man send | man -l -
      reads the page of one command
  wharf man /usr/local/share/man/man1
      installs all pages: man wharf-send, man wharf-lab-run";
