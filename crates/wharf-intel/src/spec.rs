//! `KIND:PCI-ADDRESS[,ring=N,mtu=N,promisc=on|off]`: what the kinds of both families have in common.

use super::address::{address, check_model};
use super::doctor;
use super::family::Family;
use super::faults::missing;
use super::options::PortOptions;
use super::port::Port;
use super::vfio_bus::VfioBus;
use crate::pci::PciFunction;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;
use wharf_devices::iface::{ETHERNET_BYTES, io_fault};
use wharf_devices::reasons::Counted;
use wharf_devices::requirements::Requirement;
use wharf_devices::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place, QueueLayout};

/// Descriptors of a ring, by default.
const RING_ENTRIES: u32 = 512;

/// The key of rings.
pub(crate) const RING: Key = Key::number(
    "ring",
    64..=4096,
    "64 to 4096 descriptors",
    "512",
    "Descriptors of each ring, rounded up to a power of two",
)
.when("Higher, if frames are dropped as ring-full; lower, to bound what waits behind the byte limit");

/// Makes the key of the MTU, for frames of up to `longest_bytes`.
pub(crate) const fn mtu(longest_bytes: u32, values: &'static str) -> Key {
    Key::number(
        "mtu",
        68..=(longest_bytes - ETHERNET_BYTES) as u64,
        values,
        "1500",
        "Longest payload of a frame",
    )
    .when("As the switch and the other ends have it, for jumbo frames")
}

/// Further keys of one that receives.
const RX_KEYS: &[Key] = &[Key::on_off("promisc", "Receive frames for other addresses, too")
    .when("off, to receive only what is addressed to the adapter, to all, or to any multicast group")];

/// The words by which both families count frames.
const REASONS: &[Counted] = &[
    Counted::As { word: "checksum-place", device: "packet" },
    Counted::As { word: "link-down", device: "packet" },
    Counted::Own {
        word: "malformed",
        what_happened: "The adapter found the frame to be broken, or reported a length beyond its buffer.",
        what_to_do: "Look at the cable and the other end; frames longer than the memory for them want `--frame-bytes`.",
    },
    Counted::As { word: "not-attached", device: "packet" },
    Counted::Own {
        word: "ring-full",
        what_happened: "The adapter had no buffer for an arriving frame, or no room: the receiver returned memory too slowly.",
        what_to_do: "Give the receiver more memory (`--frames`), a longer ring (`ring=4096`) or a core of its own (`--cpu`, `--poll busy`); or send more slowly.",
    },
    Counted::As { word: "super-packet", device: "xdp" },
    Counted::Own {
        word: "too-long",
        what_happened: "The frame is longer than the device's `mtu` allows.",
        what_to_do: "Raise it (`mtu=9000`), if the other ends take such frames, or send shorter ones.",
    },
    Counted::As { word: "too-many-chunks", device: "packet" },
    Counted::As { word: "too-short", device: "packet" },
    Counted::As { word: "unfinished-checksum", device: "xdp" },
];

/// Makes the kind of a family, without keys that its adapters differ in.
pub(crate) const fn kind<F: Family>(usage: &'static str, summary: &'static str) -> Kind {
    Kind {
        rx_keys: RX_KEYS,
        needs: "the adapter bound to vfio-pci (`wharf admin bind`), an IOMMU",
        requirements: &[Requirement::File { path: "/dev/vfio/vfio", mend: "sudo modprobe vfio-pci" }],
        place: Place::Adapter("PCI-ADDRESS"),
        queues: if F::QUEUES_MAX > 1 { QueueLayout::Devices } else { QueueLayout::One },
        can: Can::ECHO,
        check: |spec| address(spec).map(drop),
        doctor: doctor::of::<F>(),
        reasons: REASONS,
        ..Kind::new(F::NAME, usage, summary, open::<F>)
    }
}

/// Opens the adapter: a device for each queue.
fn open<F: Family>(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let function = PciFunction::find(address(spec)?).ok_or_else(|| missing(&spec.name()))?;
    check_model::<F>(&function).map_err(|what| spec.unsupported(what))?;
    let count = spec.devices(opening.queues) as u32;
    if count > F::QUEUES_MAX {
        return Err(spec.unsupported(format!("it has {} queues, not {count}", F::QUEUES_MAX)));
    }
    let options = options(spec, opening.direction, count);
    let bus = VfioBus::open::<F>(&function, count)
        .map_err(|(what, source)| io_fault(&spec.name(), &what)(source))?;
    let ports = Port::<F, VfioBus>::open(&spec.name(), bus, &options)?;
    Ok(ports.into_iter().map(|port| opened(port, opening.direction)).collect())
}

fn options(spec: &DeviceSpec, direction: Direction, queues: u32) -> PortOptions {
    PortOptions {
        sends: direction != Direction::Receive,
        receives: direction != Direction::Send,
        ring_entries: spec.number("ring").unwrap_or(RING_ENTRIES).next_power_of_two(),
        mtu_bytes: spec.number("mtu").unwrap_or(1500),
        promiscuous: spec.options().is_on("promisc"),
        queues,
    }
}

fn opened<F: Family>(port: Port<F, VfioBus>, direction: Direction) -> Opened {
    match direction {
        Direction::Send => Opened::tx(port),
        Direction::Receive => Opened::rx(port),
        Direction::Both => Opened::duplex(port),
    }
}
