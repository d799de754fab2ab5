//! `pcap:FILE`, to write or to read.

use super::format::{ByteOrder, FileFormat, PcapOptions, ROTATION_KEYS, Resolution, Rotation};
use super::{DIRECTION, LINK_TYPE, PcapSink, PcapSource, Snapped};
use crate::reasons::Counted;
use crate::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place};
use std::path::Path;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    place: Place::File("FILE"),
    tx_keys: &[
        Key::word(
            "resolution",
            &["ns", "us"],
            "Resolution of the time stamps",
        ).when("us, for a program that reads microseconds only"),
        Key::word("format", &["auto", "pcap", "pcapng"], "Format of the file; auto goes by its name").when("pcapng, where the name of the file does not end in .pcapng"),
        Key::word("order", &["le", "be"], "Byte order of the file").when("be, for a program that reads that order only"),
        ROTATION_KEYS[0],
        ROTATION_KEYS[1],
        ROTATION_KEYS[2],
    ],
    rx_keys: &[Key::word(
        "snapped",
        &["refuse", "pad", "send"],
        "Frames that were cut short when captured: refuse the file, fill them with zeros, or take them as they are",
    ).when("pad, to keep the lengths on the wire; send, to send just the bytes that were captured")],
    can: Can { receive: true, ignores_addresses: true, ..Can::SEND },
    doctor: super::doctor::DOCTOR,
    reasons: &[Counted::Own {
        word: DIRECTION,
        what_happened: "The packet of the capture has not the direction that `--direction` asks for, or its header has none.",
        what_to_do: "Leave `--direction` out, unless the capture is a Linux cooked one (`tcpdump -i any`). The other packets are sent.",
    }, Counted::Own {
        word: LINK_TYPE,
        what_happened: "The packet of the capture is of a link type of which no Ethernet frame can be made, or that needs addresses for one.",
        what_to_do: "Give addresses (`wharf send --pcap F --mac SRC,DST`), if it is raw IP, Linux cooked or loopback. The other packets are sent.",
    }],
    ..Kind::new(
        "pcap",
        "pcap:FILE[,format=auto|pcap|pcapng,resolution=ns|us,order=le|be,size=100m,every=1h,files=24] to write, pcap:FILE[,snapped=refuse|pad|send] to read",
        "a capture: a file, a fifo, or - for a standard stream",
        open,
    )
};

fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (path, options) = (Path::new(spec.place()), spec.options());
    let opened = match opening.direction {
        Direction::Send => {
            let resolutions = [("ns", Resolution::Nanoseconds), ("us", Resolution::Microseconds)];
            let resolution = spec.choice("resolution", resolutions);
            let byte_order = spec.choice("order", [("le", ByteOrder::Little), ("be", ByteOrder::Big)]);
            let (pcap, pcapng) = (Some(FileFormat::Pcap), Some(FileFormat::Pcapng));
            let format = spec.choice("format", [("auto", None), ("pcap", pcap), ("pcapng", pcapng)]);
            let rotation = Rotation::of(options)?;
            let options = PcapOptions { format, rotation, resolution, byte_order };
            Opened::tx(PcapSink::create(path, options)?)
        }
        Direction::Receive => {
            let words = [("refuse", Snapped::Refuse), ("pad", Snapped::Pad), ("send", Snapped::Send)];
            Opened::rx(PcapSource::open(path, spec.choice("snapped", words))?)
        }
        Direction::Both => return Err(spec.unsupported("a capture is read or written, not both at once")),
    };
    Ok(vec![opened])
}
