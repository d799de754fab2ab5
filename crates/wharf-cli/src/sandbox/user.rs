//! The user of `--user`.

/// The files of users and groups: passwd(5), group(5).
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user that is not root, and the group to be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// As it was written.
    pub(super) text: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Finds `USER[:GROUP]` on this machine. The error says what is wrong with it.
    pub(super) fn find(text: &str) -> Result<Self, String> {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        Self::find_in(text, &read(USERS), &read(GROUPS)).map_err(|error| format!("--user {text}: {error}"))
    }

    fn find_in(text: &str, users: &str, groups: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let entry = users.lines().find(|line| names(line, user));
        let uid = number(user).or_else(|| id(entry?, 2));
        let uid = uid.ok_or_else(|| format!("no user {user:?} in {USERS}, and no number of one"))?;
        let own = || entry.and_then(|line| id(line, 3));
        let without = || format!("{USERS} has no group for it: want {user}:GROUP");
        let gid = group.map_or_else(|| own().ok_or_else(without), |group| group_in(group, groups))?;
        if uid == 0 {
            return Err("that is root: want another user".into());
        }
        Ok(Self { text: text.into(), uid, gid })
    }
}

/// Finds the number of group `text`, a name or a number. The error says what is wrong with it.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    group_in(text, &std::fs::read_to_string(GROUPS).unwrap_or_default())
}

fn group_in(text: &str, groups: &str) -> Result<u32, String> {
    let of_name = || id(groups.lines().find(|line| names(line, text))?, 2);
    let found = number(text).or_else(of_name);
    found.ok_or_else(|| format!("no group {text:?} in {GROUPS}, and no number of one"))
}

/// True if the line is that of `user`, a name or a number.
fn names(line: &str, user: &str) -> bool {
    line.split(':').next() == Some(user) || (number(user).is_some() && id(line, 2) == number(user))
}

/// Returns the number in column `column` of a line.
fn id(line: &str, column: usize) -> Option<u32> {
    number(line.split(':').nth(column)?)
}

/// Reads the number of a user or group. The highest is none: to the kernel it means "as it is".
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n+broken\nnet:x:12:-1\n";
    const GROUP: &str = "root:x:0:\nkvm:x:108:qemu,nobody\n";

    fn find(text: &str) -> Result<(u32, u32), String> {
        User::find_in(text, PASSWD, GROUP).map(|user| (user.uid, user.gid))
    }

    #[test]
    fn user_is_a_name_or_a_number() {
        assert_eq!((find("nobody"), find("65534")), (Ok((65534, 65533)), Ok((65534, 65533))));
        assert_eq!((find("nobody:kvm"), find("nobody:7")), (Ok((65534, 108)), Ok((65534, 7))));
        // A number needs no entry, if there is a group.
        assert_eq!((find("4000:4001"), find("net:kvm")), (Ok((4000, 4001)), Ok((12, 108))));
    }

    #[test]
    fn other_users_are_refused() {
        for (wrong, what) in [
            ("", "no user \"\""),
            ("nobod", "no user \"nobod\" in /etc/passwd"),
            ("nobody:", "no group \"\""),
            ("nobody:qemu", "no group \"qemu\" in /etc/group"),
            ("+broken", "no user"),
            ("4000", "has no group for it: want 4000:GROUP"),
            ("net", "has no group for it"),
            ("root", "that is root"),
            ("0:108", "that is root"),
            ("+0", "no user"),
            ("00", "that is root"),
            ("4294967295:1", "no user"),
            ("nobody:4294967295", "no group"),
            ("-1:1", "no user"),
        ] {
            let error = find(wrong).unwrap_err();
            assert!(error.contains(what), "{wrong}: {error}");
        }
    }
}
