//! `wharf devices`: the kinds of devices, and what each lacks on this machine.

use crate::args::DevicesArgs;
use crate::output::{print, print_json, table, text};
use serde::Serialize;
use wharf::devices::registry::Registry;
use wharf::devices::requirements::Machine;
use wharf::devices::spec::Kind;

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
    /// True if nothing is lacking, as far as that shows without opening one.
    ready: bool,
    lacking: Vec<Lack>,
}

#[derive(Debug, Serialize)]
struct Lack {
    what: String,
    /// The command that mends it.
    mend: String,
}

impl Row {
    fn of(kind: &Kind, machine: &Machine) -> Self {
        let lacking = machine.lacking(kind);
        Row {
            name: kind.name,
            spec: kind.usage,
            what: kind.summary,
            needs: kind.needs,
            built: true,
            ready: lacking.is_empty(),
            lacking: lacking
                .into_iter()
                .map(|lacking| Lack { what: lacking.what, mend: lacking.mend })
                .collect(),
        }
    }
}

/// Lists the devices.
pub(crate) fn devices(args: &DevicesArgs, registry: &Registry) -> anyhow::Result<()> {
    let machine = Machine::look();
    let devices: Vec<Row> = registry.kinds().iter().map(|kind| Row::of(kind, &machine)).collect();
    if args.json { print_json(&Listing { devices }) } else { print(&listing(&devices)) }
}

fn listing(rows: &[Row]) -> String {
    let mut overview = table(&["device", "what it is", "here"]);
    overview.column_iter_mut().for_each(|column| column.set_cell_alignment(comfy_table::CellAlignment::Left));
    for row in rows {
        overview.add_row([row.name, row.what, state(row)]);
    }
    let specs = rows.iter().map(|row| format!("  {}", row.spec)).collect::<Vec<_>>().join("\n");
    let lacks: Vec<String> = rows.iter().flat_map(mends).collect();
    let lacks =
        if lacks.is_empty() { String::new() } else { format!("\n\nLacking here:\n{}", lacks.join("\n")) };
    format!("{}\n\nHow they are written:\n{specs}{lacks}", text(&overview))
}

fn state(row: &Row) -> &'static str {
    if row.ready { "ready" } else { "lacks something: see below" }
}

fn mends(row: &Row) -> impl Iterator<Item = String> + '_ {
    row.lacking.iter().map(|lack| format!("  {}: {}; mend it with: {}", row.name, lack.what, lack.mend))
}
