//! `Login`: the SSH connection that this process belongs to.

use std::fs;
use std::net::IpAddr;

/// Most processes above this one that are asked.
const ABOVE_MAX: usize = 64;

/// An SSH connection, by the variables that sshd(8) gives to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// The other end.
    pub client: IpAddr,
    /// This host's address, if it is told.
    pub server: Option<IpAddr>,
    /// This host's port.
    pub port: u16,
}

impl Login {
    /// Returns the connection of this process, or of one above it: `sudo` takes the variables away.
    pub fn of_process() -> Option<Self> {
        if let Some(login) = Self::of(|name| std::env::var(name).ok()) {
            return Some(login);
        }
        let mut process = std::process::id();
        for _ in 0..ABOVE_MAX {
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
            let variables = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let variables = String::from_utf8_lossy(&variables);
            let var = |name: &str| {
                variables
                    .split('\0')
                    .find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
                    .map(str::to_string)
            };
            if let Some(login) = Self::of(var) {
                return Some(login);
            }
        }
        None
    }

    fn of(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        Self::parse(&var("SSH_CONNECTION").unwrap_or_default(), var("SSH_CLIENT").as_deref())
    }

    /// Reads `SSH_CONNECTION` (client, its port, server, its port), or `SSH_CLIENT` (client, its port, the
    /// server's).
    pub(super) fn parse(connection: &str, client: Option<&str>) -> Option<Self> {
        // A link-local address has the interface behind it.
        let address =
            |word: &str| word.split('%').next()?.parse::<IpAddr>().ok().map(|one| one.to_canonical());
        let words: Vec<&str> = connection.split_whitespace().collect();
        if let [client, _, server, port] = words[..] {
            return Some(Self {
                client: address(client)?,
                server: address(server),
                port: port.parse().ok()?,
            });
        }
        let words: Vec<&str> = client?.split_whitespace().collect();
        let [client, _, port] = words[..] else { return None };
        Some(Self { client: address(client)?, server: None, port: port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_from_either_variable() {
        let login = |client: &str, server: Option<&str>, port| {
            let server = server.map(|server| server.parse().unwrap());
            Some(Login { client: client.parse().unwrap(), server, port })
        };
        assert_eq!(Login::parse("10.0.0.9 5 10.0.0.2 22", None), login("10.0.0.9", Some("10.0.0.2"), 22));
        assert_eq!(
            Login::parse("fe80::9%eth0 5 fe80::2%eth0 22", None),
            login("fe80::9", Some("fe80::2"), 22)
        );
        assert_eq!(
            Login::parse("::ffff:10.0.0.9 5 ::ffff:10.0.0.2 22", None),
            login("10.0.0.9", Some("10.0.0.2"), 22)
        );
        assert_eq!(Login::parse("", Some("10.0.0.9 5 2222")), login("10.0.0.9", None, 2222));
        for wrong in ["", "10.0.0.9", "a b c d", "10.0.0.9 5 10.0.0.2 x", "10.0.0.9 5 10.0.0.2 22 7"] {
            assert_eq!(Login::parse(wrong, None), None, "{wrong}");
        }
    }
}
