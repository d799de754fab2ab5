//! A model under loom (`tests/loom`) restates steps of crates above this one, which loom cannot run. Each such step names
//! the line that it stands for: `// core/FILE.rs FUNCTION: LINE`. Here each line is in that function still, and those that
//! a function of a model restates of one function come in the same order. A change of such a line is a change of the model.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates by the name that a step has for them.
const CRATES: [(&str, &str); 3] = [("core", "wharf-core"), ("devices", "wharf-devices"), ("wharf", "wharf")];

/// A line that a step of a model stands for.
#[derive(Debug)]
struct Restated<'a> {
    file: PathBuf,
    function: &'a str,
    code: &'a str,
}

impl<'a> Restated<'a> {
    /// Reads a line of a model; `None` if it is no such comment.
    fn read(line: &'a str) -> Option<Self> {
        let (step, code) = line.trim().strip_prefix("// ")?.split_once(": ")?;
        let (path, function) = step.split_once(".rs ")?;
        let (name, path) = path.split_once('/')?;
        let (_, folder) =
            CRATES.iter().find(|known| known.0 == name).unwrap_or_else(|| panic!("no such crate: {line}"));
        let above = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Some(Self { file: above.join(folder).join(format!("src/{path}.rs")), function, code })
    }

    /// Returns the numbers of the lines of its function that are the same.
    fn lines(&self) -> Vec<usize> {
        let source = fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let (mut end, mut found) = (None, Vec::new());
        for (number, line) in source.lines().enumerate() {
            let margin = &line[..line.len() - line.trim_start().len()];
            if is_head_of(line, self.function) {
                end = Some(format!("{margin}}}"));
            } else if end.as_deref() == Some(line) {
                end = None;
            } else if end.is_some() && line.trim() == self.code {
                found.push(number);
            }
        }
        found
    }
}

fn is_head_of(line: &str, function: &str) -> bool {
    let name = line.split_once("fn ").map(|(_, name)| name);
    name.and_then(|name| name.strip_prefix(function)).is_some_and(|rest| rest.starts_with(['(', '<']))
}

/// Asserts it of one model. Returns the number of lines that it restates.
fn check(model: &Path) -> usize {
    let (text, mut count) = (fs::read_to_string(model).unwrap(), 0);
    // By file and function, the line restated last in this function of the model.
    let mut last: BTreeMap<(PathBuf, &str), usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().trim_start_matches("pub ").starts_with("fn ") {
            last.clear();
        }
        let Some(restated) = Restated::read(line) else { continue };
        let at = format!("{}:{}", model.display(), number + 1);
        let lines = restated.lines();
        assert!(!lines.is_empty(), "{at}: {restated:?} has no such line");
        let after = last.get(&(restated.file.clone(), restated.function)).copied();
        let next = lines.into_iter().find(|&line| after.is_none_or(|after| line > after));
        let next = next.unwrap_or_else(|| panic!("{at}: {restated:?} has it before the line restated last"));
        last.insert((restated.file, restated.function), next);
        count += 1;
    }
    count
}

#[test]
fn each_line_that_a_model_restates_is_in_its_function_in_that_order() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loom");
    let models = fs::read_dir(models).unwrap().map(|entry| entry.unwrap().path());
    let by_model: BTreeMap<_, _> = models.map(|model| (model.clone(), check(&model))).collect();
    for name in [
        "waitlist",
        "close",
        "shut_queue",
        "snapshot",
        "memory",
        "poller",
        "dedicated",
        "hand_off",
        "reopen",
        "reset_waiters",
        "events",
        "vhost_user",
    ] {
        let count = by_model.iter().find(|(model, _)| model.ends_with(format!("{name}.rs"))).map(|one| one.1);
        assert!(count.is_some_and(|&count| count > 2), "{name}: a model names what it restates: {count:?}");
    }
}
