//! `wharf devices`: the kinds of devices, what each lacks on this machine, and the machine's interfaces.

mod kind;

use crate::args::DevicesArgs;
use crate::fold::{folded, wrap_last};
use crate::output::{print, print_json, table, text, wrapped};
use crate::usage;
use serde_json::{Value, json};
use wharf_core::options::did_you_mean;
use wharf_devices::interfaces::HostInterface;
use wharf_devices::registry::Registry;
use wharf_devices::requirements::{Lacking, Machine};
use wharf_devices::spec::Kind;

/// A kind, and what it lacks here, as far as that shows without opening one.
struct Row {
    kind: &'static Kind,
    lacking: Vec<Lacking>,
}

/// An interface, and the kinds that can use it.
#[derive(Clone)]
struct Used {
    interface: HostInterface,
    users: Vec<&'static str>,
}

/// Lists the devices, or shows one kind.
pub(crate) fn devices(args: &DevicesArgs, registry: &Registry) -> anyhow::Result<()> {
    let machine = Machine::look();
    let kinds = match &args.kind {
        Some(name) => vec![named(name, registry)?],
        None => registry.kinds().to_vec(),
    };
    let rows: Vec<Row> =
        kinds.into_iter().map(|kind| Row { kind, lacking: machine.lacking(kind.requirements) }).collect();
    let used = |interface: HostInterface| Used { users: users(&interface, registry), interface };
    let interfaces: Vec<Used> = HostInterface::all().into_iter().map(used).collect();
    if args.json {
        let devices: Vec<Value> = rows.iter().map(as_json).collect();
        let interfaces: Vec<Value> = interfaces.iter().map(interface_as_json).collect();
        return print_json(&json!({ "devices": devices, "interfaces": interfaces }));
    }
    match &rows[..] {
        [row] if args.kind.is_some() => print(&kind::page(row, &interfaces)),
        // What the reader has comes first.
        _ => print(&format!("{}\n\n{}", interface_table(&interfaces), listing(&rows))),
    }
}

fn named(name: &str, registry: &Registry) -> anyhow::Result<&'static Kind> {
    registry.kinds().iter().copied().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = registry.kinds().iter().map(|kind| kind.name).collect();
        if let Some(what) = registry.of_interface(name) {
            return usage(format!("{what}; `wharf doctor {name}` examines it"));
        }
        let (list, meant) = (names.join(", "), did_you_mean(name, names));
        usage(format!("\"{}\" is no kind of device; there are {list}{meant}", name))
    })
}

/// Returns the kinds that can use an interface.
fn users(interface: &HostInterface, registry: &Registry) -> Vec<&'static str> {
    registry.kinds().iter().filter(|kind| interface.is_for(kind)).map(|kind| kind.name).collect()
}

/// Returns a row as JSON. The keys are a promise.
fn as_json(row: &Row) -> Value {
    let Row { kind, lacking } = row;
    let lacks = lacking.iter().map(|Lacking { what, mend }| json!({ "what": what, "mend": mend }));
    json!({
        "name": kind.name,
        "spec": kind.usage,
        "what": kind.summary,
        "needs": kind.needs,
        "built": true,
        "ready": lacking.is_empty(),
        "lacking": lacks.collect::<Vec<_>>(),
        "sends": kind.can.send,
        "receives": kind.can.receive,
        "both_at_once": kind.can.both,
        "keys": kind::keys(kind).map(|(key, direction)| kind::key_as_json(key, direction)).collect::<Vec<_>>(),
    })
}

fn interface_as_json(used: &Used) -> Value {
    let Used { interface, users } = used;
    json!({
        "name": interface.name,
        "ethernet": interface.is_ethernet,
        "up": interface.is_up,
        "carrier": interface.has_carrier,
        "mtu_bytes": interface.mtu_bytes,
        "driver": interface.driver,
        "speed_mbit": interface.speed_mbit,
        "devices": users,
    })
}

fn listing(rows: &[Row]) -> String {
    let mut overview = wrapped(&["device", "what it is", "sends, receives", "here"]);
    for Row { kind, lacking } in rows {
        let state = lacking.first().map_or("ready", |first| &first.what);
        overview.add_row([kind.name, kind.summary, kind::directions(kind), state]);
    }
    let specs = rows.iter().map(|row| format!("  {}", row.kind.usage)).collect::<Vec<_>>().join("\n");
    let lacks: Vec<String> = rows.iter().flat_map(mends).collect();
    let lacks =
        if lacks.is_empty() { String::new() } else { format!("\n\nLacking here:\n{}", lacks.join("\n")) };
    let keys = "What each key means: wharf devices KIND";
    format!("{}\n\n{}", text(&overview), folded(&format!("How they are written:\n{specs}\n{keys}{lacks}")))
}

/// Returns a table of the interfaces and the specifications that use each.
fn interface_table(interfaces: &[Used]) -> String {
    let mut rows = table(&["interface", "state", "MTU", "speed", "driver", "use it as"]);
    rows.column_iter_mut().for_each(|column| column.set_cell_alignment(comfy_table::CellAlignment::Left));
    for Used { interface, users } in interfaces {
        let state = match (interface.is_up, interface.has_carrier) {
            (true, true) => "up",
            (true, false) => "up, no carrier",
            (false, _) => "down",
        };
        let speed = interface.speed_mbit.map_or_else(|| "-".into(), |speed| format!("{speed} Mbit/s"));
        let specs: Vec<String> = users.iter().map(|kind| format!("{kind}:{}", interface.name)).collect();
        let specs = if specs.is_empty() {
            "none: its frames have no Ethernet header".into()
        } else {
            specs.join(", ")
        };
        let driver = interface.driver.clone().unwrap_or_else(|| "-".into());
        rows.add_row([
            interface.name.clone(),
            state.into(),
            interface.mtu_bytes.to_string(),
            speed,
            driver,
            specs,
        ]);
    }
    wrap_last(&mut rows);
    format!("Interfaces of this machine:\n{}", text(&rows))
}

fn mends(row: &Row) -> impl Iterator<Item = String> {
    row.lacking.iter().map(|lack| format!("  {}: {}; what helps: {}", row.kind.name, lack.what, lack.mend))
}
