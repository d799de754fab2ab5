//! Examples in help, wrapped so that no terminal of 80 columns breaks a line.

/// Columns that an example may take.
const COLUMNS: usize = 80;

/// Wraps the examples of a command and of its subcommands.
pub(super) fn wrapped(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(|help| wrap(&help.to_string()));
    let command = help.iter().fold(command, |command, help| command.after_help(help.clone()));
    command.mut_subcommands(wrapped)
}

/// Wraps the lines from `Examples:` up to the first empty one: command lines behind a backslash, explanations at their indentation.
pub(crate) fn wrap(help: &str) -> String {
    let Some((before, rest)) = help.split_once("Examples:\n") else { return help.into() };
    let (examples, after) =
        rest.split_once("\n\n").map_or((rest, None), |(examples, after)| (examples, Some(after)));
    let lines: Vec<String> = examples.lines().flat_map(pieces).collect();
    let after = after.map_or(String::new(), |after| format!("\n\n{after}"));
    format!("{before}Examples:\n{}{after}", lines.join("\n"))
}

fn pieces(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let (end, hanging) = if indent > 2 { ("", indent) } else { (" \\", 4) };
    let mut all = vec![" ".repeat(indent)];
    for word in units(line) {
        let Some(last) = all.last_mut() else { break };
        let is_first = last.ends_with(' ') || last.is_empty();
        if is_first {
            last.push_str(&word);
        } else if last.chars().count() + 1 + word.chars().count() + end.len() <= COLUMNS {
            last.push(' ');
            last.push_str(&word);
        } else {
            last.push_str(end);
            all.push(format!("{}{word}", " ".repeat(hanging)));
        }
    }
    all
}

/// Returns the words of a line, an option together with its value.
fn units(line: &str) -> Vec<String> {
    line.split_whitespace().fold(Vec::new(), |mut all: Vec<String>, word| {
        match all.last_mut().filter(|last| last.starts_with("--") || *last == ">") {
            Some(option) if !option.contains(' ') && !word.starts_with('-') => *option += &format!(" {word}"),
            _ => all.push(word.into()),
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_words() {
        let command = format!("  wharf send {}", ["--to packet:eth0"; 6].join(" "));
        let text = format!("Examples:\n{command}\n      {}\n\nRest", ["words"; 20].join(" "));
        let wrapped = wrap(&text);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= COLUMNS), "{wrapped}");
        assert!(
            lines[1].ends_with(" \\") && lines[2].starts_with("    --to") && lines[5].is_empty(),
            "{wrapped}"
        );
        assert!(lines[4].starts_with("      words") && lines[6] == "Rest", "{wrapped}");
        let joined = wrapped.replace(" \\\n   ", "").replace("\n     ", "");
        assert!(joined.contains(&command) && joined.contains(&["words"; 20].join(" ")), "{joined}");
        assert_eq!(wrap("Examples:\n  short\n\nRest"), "Examples:\n  short\n\nRest");
    }
}
