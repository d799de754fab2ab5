//! `wharf top`: the counters of a run, drawn anew each second.

mod draw;
mod keys;
mod plot;
mod state;

use super::client::{ANSWER, Client, Silent, answers};
use super::control::Request;
use super::places;
use crate::args::TopArgs;
use crate::signals::Signals;
use anyhow::{Context, bail};
use keys::Keys;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use state::State;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two looks at the keys and the signals.
const LOOK: Duration = Duration::from_millis(50);

/// Draws until a key or a signal ends it, or until the run has ended.
pub(crate) fn top(args: &TopArgs) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal: `wharf show` prints the counters once");
    }
    let all = if args.which.is_none() { running() } else { Vec::new() };
    let first = match &args.which {
        Some(which) => places::find(which)?,
        None => all.first().cloned().with_context(places::none)?,
    };
    let (client, signals, keys) = (Client::connect(&first, LOOK)?, Signals::listen()?, Keys::open()?);
    let every = args.interval;
    // It restores the terminal when this thread panics, too.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let state = State::at(place(&all, &first));
    let mut view = View { path: first, client: Some(client), state, due: Instant::now(), asked: None, every };
    let done = view.run(&mut terminal, &keys, &signals);
    // A terminal that is gone is not restored: both ways to do that print, and standard error is gone with it.
    if done.is_err() {
        std::mem::forget(terminal);
        let _ = ratatui::try_restore();
    } else {
        ratatui::restore();
    }
    done
}

/// The run that is drawn.
struct View {
    path: PathBuf,
    /// None once the run has ended.
    client: Option<Client>,
    state: State,
    due: Instant,
    /// Time of the request that has no answer yet.
    asked: Option<Instant>,
    every: Duration,
}

impl View {
    fn run(
        &mut self, terminal: &mut ratatui::DefaultTerminal, keys: &Keys, signals: &Signals,
    ) -> anyhow::Result<()> {
        while !signals.asked() {
            self.refresh();
            terminal.draw(|frame| draw::draw(frame, &self.state)).context("cannot draw on this terminal")?;
            if keys.pressed(LOOK)?.iter().any(|event| self.ends(event)) {
                break;
            }
        }
        Ok(())
    }

    /// Asks for the counters when it is time.
    fn refresh(&mut self) {
        let is_due = Instant::now() >= self.due && !self.state.is_paused;
        let Some(client) = self.client.as_mut().filter(|_| is_due || self.asked.is_some()) else { return };
        let asked = match self.asked {
            Some(_) => Ok(()),
            None => client.request(&Request::Show),
        };
        let since = *self.asked.get_or_insert_with(Instant::now);
        match asked.and_then(|()| client.answer()) {
            Ok(snapshot) => {
                (self.asked, self.due) = (None, since + self.every);
                self.state.is_silent = false;
                self.state.add(snapshot);
            }
            Err(error) if error.is::<Silent>() => self.state.is_silent = since.elapsed() >= ANSWER,
            Err(_) => {
                self.client = None;
                self.state.has_ended = true;
            }
        }
    }

    /// Carries out a key. Returns true if it ends the view.
    fn ends(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind != KeyEventKind::Press {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('p') => self.state.is_paused ^= true,
            KeyCode::Char('?' | 'h') => self.state.has_help ^= true,
            KeyCode::Left | KeyCode::Up => self.change_to(false),
            KeyCode::Right | KeyCode::Down => self.change_to(true),
            _ => {}
        }
        false
    }

    /// Changes to the next run, or to the one before.
    fn change_to(&mut self, is_next: bool) {
        let all = running();
        let Some(other) = neighbour(&all, &self.path, is_next) else { return };
        if let Ok(client) = Client::connect(other, LOOK) {
            (self.path, self.client, self.due) = (other.clone(), Some(client), Instant::now());
            (self.state, self.asked) = (State::at(place(&all, other)), None);
        }
    }
}

/// Returns which of how many runs has this socket, from 1; a socket elsewhere is none of them.
fn place(all: &[PathBuf], path: &Path) -> (usize, usize) {
    all.iter().position(|other| other == path).map_or((0, 0), |at| (at + 1, all.len()))
}

/// Returns the place after that of `path`, or before it, in a circle; the first one if that is gone.
fn neighbour<'a>(all: &'a [PathBuf], path: &Path, is_next: bool) -> Option<&'a PathBuf> {
    let step = if is_next { 1 } else { all.len().checked_sub(1)? };
    match all.iter().position(|other| other == path) {
        Some(at) => all.get((at + step) % all.len()),
        None => all.first(),
    }
}

/// Returns the sockets of all processes that answer.
fn running() -> Vec<PathBuf> {
    answers().into_iter().filter_map(|(path, answer)| answer.is_ok().then_some(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_in_a_circle() {
        let all: Vec<PathBuf> = ["a", "b", "c"].map(PathBuf::from).to_vec();
        let from =
            |path: &str, is_next| neighbour(&all, Path::new(path), is_next).and_then(|path| path.to_str());
        assert_eq!((from("a", true), from("c", true), from("a", false)), (Some("b"), Some("a"), Some("c")));
        assert_eq!(from("gone", true), Some("a"));
        assert_eq!(neighbour(&[], Path::new("a"), false), None);
    }
}
