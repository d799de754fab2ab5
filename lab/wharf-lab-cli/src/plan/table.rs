//! A plan as text.

use comfy_table::{CellAlignment, Table};
use wharf_cli::fold::{folded, wrap_last};
use wharf_cli::output::{table, text};
use wharf_plan::nics::Mark;
use wharf_plan::plan::{
    CHECK_BYTES, Direction, FeatureOutcome, Outcome, Part, Plan, Question, SweepRow, mpps,
};

/// Most rows of a sweep; the JSON has them all.
const SWEEP_ROWS: usize = 24;

/// Returns the whole plan, in words and columns.
pub(super) fn table_of(plan: &Plan, question: &Question, sweep: &[SweepRow], interface: &str) -> String {
    let link = &plan.link;
    let estimate = if link.generation().is_estimate() { ", an estimate" } else { "" };
    let gbps = link.tlp_bits_per_second() as f64 / 1e9;
    let cores = match question.cores {
        1 => "1 core".to_string(),
        cores => format!("{cores} cores"),
    };
    let mut parts = vec![
        folded(&format!("{}: {}", plan.nic.name, plan.nic.what)),
        format!("{link}: {gbps:.1} Gbit/s for TLPs each way{estimate}"),
        format!("{}, {cores}\n", question.load.name()),
        text(&limits(plan)),
        String::new(),
        text(&features(plan, question.direction)),
        beside_features(plan, question.direction, interface),
        format!("\n{}", folded(&plan.answer.words)),
        folded(&plan.confirmation(question.direction, interface).join("\n")),
        folded(&origins(plan)),
    ];
    if !sweep.is_empty() {
        parts.push(format!("\n{}", text(&sizes(sweep, question.direction))));
    }
    parts.join("\n")
}

/// Returns bytes and packets by part, for each direction.
fn limits(plan: &Plan) -> Table {
    let mut lines = table(&["", "tx", "rx", "both at once"]);
    let mut row = |name: &str, of: &dyn Fn(&Outcome) -> String| {
        let cells = plan.outcomes.iter().map(of);
        lines.add_row([name.to_string()].into_iter().chain(cells));
    };
    row("bytes towards the NIC", &|outcome| bytes(outcome.cost.to_nic_bytes));
    row("bytes towards the host", &|outcome| bytes(outcome.cost.to_host_bytes));
    row("Mpps that each part allows:", &|_| String::new());
    for part in Part::ALL {
        row(&format!("  {}", part.words()), &|outcome| outcome.limit(part).map_or("-".into(), mpps));
    }
    row("Mpps", &|outcome| mpps(outcome.pps));
    row("stopped by", &|outcome| short(outcome.binding).into());
    lines
}

/// Returns the effect of each feature that has one.
fn features(plan: &Plan, direction: Direction) -> Table {
    let at = direction as usize;
    let way = direction.name();
    let mut lines =
        table(&["feature", "is", &format!("{way} with"), &format!("{way} without"), "what it does"]);
    left(&mut lines, 4);
    let mut row = |feature: &FeatureOutcome| {
        let is = if feature.on { "on" } else { "off" };
        let cells = [feature.name.clone(), is.into(), mpps(feature.with[at]), mpps(feature.without[at])];
        lines.add_row(cells.into_iter().chain([feature.what.clone()]));
    };
    plan.features.iter().filter(|feature| feature.has_effect(direction)).for_each(&mut row);
    let together = [String::from("all together"), String::new(), mpps(plan.together[at].pps), String::new()];
    lines.add_row(together.into_iter().chain([plan.together_on.join(", ")]));
    wrap_last(&mut lines);
    lines
}

/// Returns the features without effect, and the commands that raise the rate.
fn beside_features(plan: &Plan, direction: Direction, interface: &str) -> String {
    let mut lines = Vec::new();
    let idle = plan.without_effect(direction);
    if !idle.is_empty() {
        lines.push(folded(&format!("no effect here: {}", idle.join(", "))));
    }
    let commands = plan.improvements(direction, interface);
    if !commands.is_empty() {
        lines.push(format!("\nCommands that raise it (driver {}):", plan.nic.drivers.join(", ")));
        lines.extend(commands.iter().map(|command| format!("  {command}")));
    }
    lines.join("\n")
}

fn sizes(sweep: &[SweepRow], direction: Direction) -> Table {
    let way = direction.name();
    let mut lines =
        table(&["size", "to NIC", "to host", &format!("Mpps {way}"), "all features", "stopped by"]);
    let step = sweep.len().div_ceil(SWEEP_ROWS).max(1);
    let last = sweep.len() - 1;
    for (_, row) in sweep.iter().enumerate().filter(|(at, _)| at.is_multiple_of(step) || *at == last) {
        let cost = &row.outcome.cost;
        let cells =
            [(row.size - CHECK_BYTES).to_string(), bytes(cost.to_nic_bytes), bytes(cost.to_host_bytes)];
        let rates = [mpps(row.outcome.pps), mpps(row.together_pps), short(row.outcome.binding).into()];
        lines.add_row(cells.into_iter().chain(rates));
    }
    lines
}

/// Returns the number of figures by mark.
fn origins(plan: &Plan) -> String {
    let figures = plan.nic.figures().into_iter().map(|figure| figure.mark);
    let transfers = plan.nic.tx.transfers.iter().chain(&plan.nic.rx.transfers).map(|transfer| transfer.mark);
    let marks: Vec<Mark> = figures.chain(transfers).collect();
    let count = |&(name, mark): &(&str, Mark)| {
        let count = marks.iter().filter(|one| **one == mark).count();
        (count > 0).then(|| format!("{count} {name}"))
    };
    let counts: Vec<String> = Mark::NAMES.iter().filter_map(count).collect();
    format!("Numbers behind this: {}; --json names each with its source.", counts.join(", "))
}

fn short(part: Part) -> &'static str {
    match part {
        Part::BusToNic => "bus to NIC",
        Part::BusToHost => "bus to host",
        Part::Tags => "tags",
        Part::Memory => "memory",
        Part::Nic => "NIC",
        part => part.words(),
    }
}

fn left(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Left);
    }
}

/// Returns bytes to a tenth, halves up.
fn bytes(billionths: u64) -> String {
    let tenths = billionths.saturating_add(50_000_000) / 100_000_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}
