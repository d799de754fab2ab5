//! `wharf devices`: the kinds of devices, and what each lacks on this machine.

use crate::args::DevicesArgs;
use crate::output::{print, print_json, table, text};
use serde_json::{Value, json};
use wharf::devices::registry::Registry;
use wharf::devices::requirements::{Lacking, Machine};
use wharf::devices::spec::Kind;

/// A kind, and what it lacks here, as far as that shows without opening one.
type Row = (&'static Kind, Vec<Lacking>);

/// Lists the devices.
pub(crate) fn devices(args: &DevicesArgs, registry: &Registry) -> anyhow::Result<()> {
    let machine = Machine::look();
    let rows: Vec<Row> = registry.kinds().iter().map(|&kind| (kind, machine.lacking(kind))).collect();
    let devices = || rows.iter().map(as_json).collect::<Vec<_>>();
    if args.json { print_json(&json!({ "devices": devices() })) } else { print(&listing(&rows)) }
}

/// Returns a row as JSON. The keys are a promise.
fn as_json((kind, lacking): &Row) -> Value {
    let lacks = lacking.iter().map(|Lacking { what, mend }| json!({ "what": what, "mend": mend }));
    json!({
        "name": kind.name,
        "spec": kind.usage,
        "what": kind.summary,
        "needs": kind.needs,
        "built": true,
        "ready": lacking.is_empty(),
        "lacking": lacks.collect::<Vec<_>>(),
    })
}

fn listing(rows: &[Row]) -> String {
    let mut overview = table(&["device", "what it is", "here"]);
    overview.column_iter_mut().for_each(|column| column.set_cell_alignment(comfy_table::CellAlignment::Left));
    for (kind, lacking) in rows {
        let state = if lacking.is_empty() { "ready" } else { "lacks something: see below" };
        overview.add_row([kind.name, kind.summary, state]);
    }
    let specs = rows.iter().map(|(kind, _)| format!("  {}", kind.usage)).collect::<Vec<_>>().join("\n");
    let lacks: Vec<String> = rows.iter().flat_map(mends).collect();
    let lacks =
        if lacks.is_empty() { String::new() } else { format!("\n\nLacking here:\n{}", lacks.join("\n")) };
    format!("{}\n\nHow they are written:\n{specs}{lacks}", text(&overview))
}

fn mends((kind, lacking): &Row) -> impl Iterator<Item = String> {
    lacking.iter().map(|lack| format!("  {}: {}; mend it with: {}", kind.name, lack.what, lack.mend))
}
