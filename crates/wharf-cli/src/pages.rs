//! `wharf completions` and `wharf man`: texts made from the command line's own definition.

use crate::files::write_page;
use crate::output::print;
use crate::{beside, usage};
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::path::Path;

/// Texts made from a program's definition.
#[derive(Debug, Subcommand)]
pub enum Pages {
    /// Print the completions of options and values for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write those of all
    Man(ManArgs),
}

/// `wharf completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL", value_parser = shells())]
    pub shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  source <(wharf completions bash)
      completes in this shell
  wharf completions bash > ~/.local/share/bash-completion/completions/wharf
  wharf completions zsh > /usr/local/share/zsh/site-functions/_wharf
  wharf completions fish > ~/.config/fish/completions/wharf.fish";

/// Returns a reader of the shells for which there are completions.
fn shells() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// `wharf man`.
#[derive(Debug, Args)]
#[command(after_help = MAN)]
pub struct ManArgs {
    /// Command, such as send or lab run: prints its page. A folder that exists: writes the pages of all commands into it
    #[arg(value_name = "COMMAND|DIR")]
    pub what: Vec<String>,
}

const MAN: &str = "\
Examples:
  wharf man send | man -l -
      reads the page of one command
  wharf man /usr/local/share/man/man1
      installs all pages: man wharf-send; wharf-lab man DIR adds man wharf-lab-run";

impl Pages {
    /// Prints or writes what is asked for of `program`, which has this definition. `with_words` adds, for completions, words that help does
    /// not list.
    ///
    /// # Errors
    /// A wrong use, or a page that cannot be written.
    pub fn print(
        &self, program: &'static str, definition: clap::Command,
        with_words: impl FnOnce(clap::Command) -> clap::Command,
    ) -> anyhow::Result<()> {
        match self {
            Self::Completions(args) => completions(args, program, with_words(definition)),
            Self::Man(args) => man(args, program, definition),
        }
    }
}

/// Prints the completions of a shell.
fn completions(
    args: &CompletionsArgs, program: &'static str, mut command: clap::Command,
) -> anyhow::Result<()> {
    if program != "wharf" {
        command = beside::by_itself(program, &command);
    }
    // The generator for bash takes a hyphen in the name for the border between two commands.
    let (name, mut script) = (program.replace('-', "_"), Vec::new());
    clap_complete::generate(args.shell, &mut command, &name, &mut script);
    let script = String::from_utf8(script)?.replace(&format!(" {name} "), &format!(" {program} "));
    let mut script = script.replace(&format!(" {name}\n"), &format!(" {program}\n"));
    if args.shell == Shell::Fish {
        fish_words(&command, program, "", &mut script);
    }
    if program == "wharf" {
        script = with_programs(script, args.shell);
    }
    print(script.trim_end())
}

/// Adds to the completions of `wharf` that the words of commands that are programs are completed by these.
fn with_programs(mut script: String, shell: Shell) -> String {
    match shell {
        Shell::Bash => script + include_str!("pages/beside.bash"),
        Shell::Fish => script + include_str!("pages/beside.fish"),
        _ => {
            for (name, words) in beside::calls() {
                let case = format!("\n({name})\n");
                let body = script.find(&case).map(|at| at + case.len());
                if let Some((at, length)) = body.and_then(|at| Some((at, script[at..].find(";;")?))) {
                    script.replace_range(at..at + length, &format!("_wharf_program {words} && ret=0\n"));
                }
            }
            script.replacen(
                "\nif [ \"$funcstack",
                &format!("{}\nif [ \"$funcstack", include_str!("pages/beside.zsh")),
                1,
            )
        }
    }
}

/// Adds the words of commands that are no options, which `clap_complete` leaves out for fish. `condition` is that of `command` itself.
fn fish_words(command: &clap::Command, program: &str, condition: &str, script: &mut String) {
    let values = command.get_positionals().flat_map(|arg| arg.get_possible_values());
    let words: Vec<String> = values.map(|value| value.get_name().to_string()).collect();
    if !words.is_empty() {
        *script += &format!("complete -c {program} -n \"{condition}\" -a \"{}\"\n", words.join(" "));
    }
    for inner in command.get_subcommands() {
        let name = inner.get_name();
        let condition = match condition {
            "" => format!("__fish_{}_using_subcommand {name}", program.replace('-', "_")),
            outer => format!("{outer}; and __fish_seen_subcommand_from {name}"),
        };
        fish_words(inner, program, &condition, script);
    }
}

/// Prints the page of a command, or writes all pages into a folder.
fn man(args: &ManArgs, program: &str, definition: clap::Command) -> anyhow::Result<()> {
    let mut all = definition.disable_help_subcommand(true);
    all.build();
    let named = args.what.iter().try_fold(&all, |command, word| command.find_subcommand(word));
    match (named, &args.what[..]) {
        (Some(named), _) => print(page(named)?.trim_end()),
        (None, [folder]) if Path::new(folder).is_dir() => write_own(&all, program, Path::new(folder)),
        (None, words) => {
            let words = words.join(" ");
            Err(usage(format!("{}: neither a command nor a folder that exists", words.escape_debug())))
        }
    }
}

/// Writes the pages of the commands of `program`, those of `wharf` with the page that lists all.
fn write_own(all: &clap::Command, program: &str, folder: &Path) -> anyhow::Result<()> {
    if program == "wharf" {
        write_one(all, folder)?;
    }
    let own = all.get_subcommands().filter(|command| beside::program_of(command.get_name()) == program);
    let mut own = own;
    own.try_for_each(|command| write_all(command, folder))
}

/// Writes the pages of a command and of its subcommands.
fn write_all(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    write_one(command, folder)?;
    command.get_subcommands().try_for_each(|command| write_all(command, folder))
}

fn write_one(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    write_page(&path, page(command)?.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the page of a command. Its examples keep their lines.
fn page(command: &clap::Command) -> anyhow::Result<String> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = command.get_display_name().unwrap_or("wharf").to_string();
    let man = Man::new(with_aliases(command.clone()))
        .title(name.to_uppercase())
        .source(format!("wharf {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    notes(&after).to_writer(&mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Adds the other names of options to their descriptions.
fn with_aliases(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| match (arg.get_visible_aliases(), arg.get_help()) {
        (Some(aliases), Some(help)) if !aliases.is_empty() => {
            let help = format!("{help} [alias: --{}]", aliases.join(", --"));
            arg.help(help)
        }
        _ => arg,
    })
}

/// Returns the text behind the options: paragraphs, and lines that begin with a blank as they are.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_filled = true;
    for line in text.lines() {
        let fills = !line.starts_with(' ');
        match (fills, std::mem::replace(&mut is_filled, fills)) {
            (true, false) => roff.control("fi", []),
            (false, true) => roff.control("nf", []),
            _ => &mut roff,
        };
        match line {
            "" => roff.control("PP", []),
            "Examples:" => roff.control("SH", ["EXAMPLES"]),
            line => roff.text([roman(line)]),
        };
    }
    if !is_filled {
        roff.control("fi", []);
    }
    roff
}
