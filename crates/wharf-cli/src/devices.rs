//! `wharf devices`: what there is, and what each lacks here.

use crate::args::DevicesArgs;
use crate::output::{print, print_json, table, text};
use serde::Serialize;
use wharf::devices::kinds::{Kind, kinds};

#[derive(Debug, Serialize)]
struct Listing {
    devices: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    spec: &'static str,
    what: &'static str,
    needs: &'static str,
    built: bool,
    /// Whether this machine can open it now, as far as that shows without doing so.
    ready: bool,
    lacking: Vec<Lack>,
}

#[derive(Debug, Serialize)]
struct Lack {
    what: String,
    /// The command that mends it.
    mend: String,
}

impl From<Kind> for Row {
    fn from(kind: Kind) -> Self {
        let ready = kind.is_ready();
        let lacking = kind.lacking.into_iter().map(|lacking| Lack { what: lacking.what, mend: lacking.mend });
        let Kind { name, spec, what, needs, built, .. } = kind;
        Row { name, spec, what, needs, built, ready, lacking: lacking.collect() }
    }
}

/// Lists the devices.
pub(crate) fn devices(args: &DevicesArgs) -> anyhow::Result<()> {
    let devices: Vec<Row> = kinds().into_iter().map(Row::from).collect();
    if args.json { print_json(&Listing { devices }) } else { print(&listing(&devices)) }
}

fn listing(rows: &[Row]) -> String {
    let mut overview = table(&["device", "what it is", "here"]);
    overview.column_iter_mut().for_each(|column| column.set_cell_alignment(comfy_table::CellAlignment::Left));
    for row in rows {
        overview.add_row([row.name, row.what, state(row)]);
    }
    let specs = rows.iter().map(|row| format!("  {}", row.spec)).collect::<Vec<_>>().join("\n");
    let lacks: Vec<String> = rows.iter().filter(|row| row.built).flat_map(mends).collect();
    let lacks =
        if lacks.is_empty() { String::new() } else { format!("\n\nLacking here:\n{}", lacks.join("\n")) };
    format!("{}\n\nHow they are written:\n{specs}{lacks}", text(&overview))
}

fn state(row: &Row) -> &'static str {
    match (row.built, row.ready) {
        (false, _) => "not built yet",
        (true, true) => "ready",
        (true, false) => "lacks something: see below",
    }
}

fn mends(row: &Row) -> impl Iterator<Item = String> + '_ {
    row.lacking.iter().map(|lack| format!("  {}: {}; mend it with: {}", row.name, lack.what, lack.mend))
}
