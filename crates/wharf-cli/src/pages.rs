//! `wharf completions` and `wharf man`: texts made from the command line's own definition.

mod calls;

pub use crate::live_words::with_devices;
pub use calls::FILES;
pub(crate) use calls::{DEVICES, RUNS};

use crate::command_line::examples;
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
pub struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL", value_parser = shells())]
    pub shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  source <(@PROGRAM@ completions bash)
      completes in this shell
  @PROGRAM@ completions bash > ~/.local/share/bash-completion/completions/@PROGRAM@
  @PROGRAM@ completions zsh > /usr/local/share/zsh/site-functions/_@FUNCTION@
  @PROGRAM@ completions fish > ~/.config/fish/completions/@PROGRAM@.fish";

const MAN: &str = "\
Examples:
  @PROGRAM@ man @COMMAND@ | man -l -
      reads the page of one command
  @PROGRAM@ man /usr/local/share/man/man1
      installs its pages, such as that of man wharf-@COMMAND@";

/// Adds the examples of `program` to these commands of its definition.
pub fn with_examples(definition: clap::Command, program: &str) -> clap::Command {
    let function = program.replace('-', "_");
    let command = beside::own_command(program).unwrap_or("send");
    [("completions", COMPLETIONS), ("man", MAN)].into_iter().fold(
        definition,
        |definition, (name, examples)| {
            let examples = examples.replace("@PROGRAM@", program).replace("@FUNCTION@", &function);
            let examples = examples::wrap(&examples.replace("@COMMAND@", command));
            definition.mut_subcommand(name, |of| of.after_help(examples))
        },
    )
}

/// Returns a reader of the shells for which there are completions.
fn shells() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// `wharf man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command, such as send or lab run: prints its page. A folder that exists: writes the pages of all commands into it
    #[arg(value_name = "COMMAND|DIR")]
    pub what: Vec<String>,
}

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
        // For fish the generator takes the word `help` itself for one that is to stand behind it.
        script = script.replace(" help\" -f -a", "\" -f -a");
        let hidden = command.get_subcommands().filter(|command| command.is_hide_set());
        let hidden: Vec<String> =
            hidden.map(|of| format!("needs_command\" -f -a \"{}\"", of.get_name())).collect();
        let is_shown = |line: &&str| !hidden.iter().any(|of| line.contains(of));
        script = script.lines().filter(is_shown).map(|line| format!("{line}\n")).collect();
        fish_words(&command, program, "", &mut script);
    }
    let mut function = format!("_{name}");
    if program == "wharf" {
        script = with_programs(script, args.shell, &command);
        function += "_or_program";
    }
    if args.shell == Shell::Bash {
        let whole = include_str!("pages/whole.bash").replace("@FUNCTION@", &function);
        script += &whole.replace("@NAME@", &name).replace("@PROGRAM@", program);
    }
    print(calls::called(&script, args.shell).trim_end())
}

/// Adds to the completions of `wharf` that the words of commands that are programs are completed by these.
fn with_programs(mut script: String, shell: Shell, command: &clap::Command) -> String {
    match shell {
        Shell::Bash => {
            let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            let valued: Vec<String> =
                valued.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
            script
                + &for_each_program(include_str!("pages/beside.bash"))
                    .replace("@OPTIONS@", &valued.join(" | "))
        }
        Shell::Fish => script + &for_each_program(include_str!("pages/beside.fish")),
        _ => {
            for (name, call) in beside::calls() {
                // The case of the command, and that of its help.
                let case = format!("\n({name})\n");
                let parts = script.split(&case).enumerate().map(|(at, part)| match part.split_once(";;") {
                    Some((_, rest)) if at > 0 => format!("_wharf_program {call} && ret=0\n;;{rest}"),
                    _ => part.into(),
                });
                script = parts.collect::<Vec<String>>().join(&case);
            }
            script.replacen(
                "\nif [ \"$funcstack",
                &format!("{}\nif [ \"$funcstack", include_str!("pages/beside.zsh")),
                1,
            )
        }
    }
}

/// Returns a script whose lines with `@COMMAND@` are there for each command that is a program.
fn for_each_program(script: &str) -> String {
    let filled = |line: &str| -> Vec<String> {
        let of = |(name, call): (_, String)| line.replace("@COMMAND@", name).replace("@CALL@", &call);
        if line.contains("@COMMAND@") { beside::calls().map(of).collect() } else { vec![line.into()] }
    };
    script.lines().flat_map(filled).map(|line| line + "\n").collect()
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
    let what: Vec<&str> = match &args.what[..] {
        [] => beside::own_command(program).into_iter().collect(),
        words => words.iter().map(String::as_str).collect(),
    };
    let named = what.iter().try_fold(&all, |command, word| command.find_subcommand(word));
    match (named, &what[..]) {
        (Some(named), _) => print(page(named)?.trim_end()),
        (None, [folder]) if Path::new(folder).is_dir() => write_own(&all, program, Path::new(folder)),
        (None, words) => {
            let words = words.join(" ");
            Err(usage(format!("{}: neither a command nor a folder that exists", words)))
        }
    }
}

/// Writes the pages of the commands of `program`, those of `wharf` with the page that lists all.
fn write_own(all: &clap::Command, program: &str, folder: &Path) -> anyhow::Result<()> {
    if program == "wharf" {
        write_one(all, folder)?;
    }
    let is_own = |command: &&clap::Command| beside::program_of(command.get_name()) == program;
    let mut own = all.get_subcommands().filter(is_own).filter(|command| !command.is_hide_set());
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
