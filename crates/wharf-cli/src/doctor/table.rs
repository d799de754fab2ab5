//! The page of a diagnosis, for people: the verdicts, then the findings, the worst first.

use super::{Examined, word};
use crate::output::{text, wrapped};
use wharf_devices::doctor::{Finding, Trial, Weight};

/// Returns the page of one device.
pub(super) fn page(examined: &Examined) -> String {
    let Examined { spec, diagnosis } = examined;
    let mut lines = vec![spec.to_string()];
    lines.extend(diagnosis.trials.iter().map(|(direction, trial)| {
        let verdict = verdict(trial, diagnosis.is_usable(*direction));
        format!("  {:<9}{verdict}", format!("{}:", word(*direction)))
    }));
    let mut rows = wrapped(&["", "subject", "found", "what helps"]);
    let mark = |finding: &Finding| match finding.weight {
        Weight::Obstacle(_) if diagnosis.trials.iter().any(|(tried, _)| finding.prevents(*tried)) => "no",
        Weight::Hint => "hint",
        Weight::Obstacle(_) | Weight::Fact => "",
    };
    let mut findings: Vec<&Finding> = diagnosis.findings.iter().collect();
    findings.sort_by_key(|finding| ["no", "hint", ""].iter().position(|known| *known == mark(finding)));
    for finding in &findings {
        rows.add_row([
            mark(finding),
            finding.subject,
            &finding.what,
            finding.mend.as_deref().unwrap_or_default(),
        ]);
    }
    if !findings.is_empty() {
        lines.push(format!("\n{}", text(&rows)));
    }
    lines.join("\n")
}

fn verdict(trial: &Trial, is_usable: bool) -> String {
    match trial {
        Trial::Opened { mode, reason, ring_frames, has_byte_limit } => {
            let mode = mode.as_ref().map_or(String::new(), |mode| format!(", mode {mode}"));
            let ring = ring_frames.map_or(String::new(), |frames| format!(", by a ring of {frames} frames"));
            let limit = match has_byte_limit {
                Some(true) => ", with a byte queue limit",
                Some(false) => ", without a byte queue limit",
                None => "",
            };
            let reason =
                reason.as_ref().map_or(String::new(), |reason| format!("\n           {}", reason.what));
            format!("works{mode}{ring}{limit}{reason}")
        }
        Trial::Refused { why } => format!("no: {why}"),
        Trial::Untried { why } if is_usable => format!("not tried ({why}); nothing is known to prevent it"),
        Trial::Untried { why } => format!("no, as found below; not tried ({why})"),
    }
}
