//! What can go wrong as a port is opened, by kind: `errors`, as root.

use wharf::{Direction, OpenErrorKind, Port};

fn main() -> Result<(), String> {
    let udp =
        Port::open("udp:127.0.0.1:4434,dest=frame", Direction::Both).map_err(|error| error.to_string())?;
    let wrong = [
        ("smoke:eth0", OpenErrorKind::UnknownKind),
        ("wire:speed=1", OpenErrorKind::BadKey),
        ("packet:nowhere0", OpenErrorKind::NoSuchInterface),
        ("xdp:nowhere0", OpenErrorKind::NoSuchInterface),
        ("udp:127.0.0.1:4434,dest=frame", OpenErrorKind::InUse),
        ("xdp:lo,queue=99", OpenErrorKind::NoSuchQueue),
    ];
    for (spec, kind) in wrong {
        match Port::open(spec, Direction::Both) {
            Ok(_) => return Err(format!("{spec} opens")),
            Err(error) if error.kind() == kind => println!("{kind:?}: {error}"),
            Err(error) => return Err(format!("{spec}: {:?}, not {kind:?}: {error}", error.kind())),
        }
    }
    drop(udp);
    Ok(())
}
