//! Ends a copy from another thread, whatever call of the network it waits in.

use super::ended::Ended;
use crate::config::Address;
use crate::env::task::{Every, Spawner};
use crate::log::LogError;
use crate::net::client::{Client, ClientError, WriteHalf};
use proto::Limits;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What ends the wait for a connection.
enum Event {
    Connected(Box<Result<Client, ClientError>>),
    Stop,
}

/// The request to stop, and what a thread may wait for.
#[derive(Default)]
pub(super) struct Stop {
    is_asked: AtomicBool,
    /// Ends a read that blocks.
    connection: Mutex<Option<WriteHalf>>,
    /// Ends the wait for a connection.
    connecting: Mutex<Option<Sender<Event>>>,
}

impl Stop {
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        if let Some(connecting) = &*self.connecting.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread may not wait any more.
            let _ = connecting.send(Event::Stop);
        }
        if let Some(connection) = &mut *self.connection.lock().unwrap_or_else(PoisonError::into_inner) {
            connection.stop_reading();
        }
    }

    /// The connection is closed.
    pub fn closed(&self) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Connects to a tickerplant, on a thread of its own: a host that is gone does not refuse, and a take-over must not wait for it.
    pub fn connect(
        &self,
        spawner: &dyn Spawner,
        leader: &Address,
        (within, limits): (Duration, Limits),
        dir: &Path,
    ) -> Result<Client, Ended> {
        let (tell, told) = channel();
        *self.connecting.lock().unwrap_or_else(PoisonError::into_inner) = Some(tell.clone());
        if self.is_asked() {
            return Err(Ended::Stopped);
        }
        let address = leader.clone();
        let connect = move || {
            // Nobody waits for it after a request to stop.
            let _ = tell.send(Event::Connected(Box::new(Client::connect(&address, within, limits))));
            ControlFlow::Break(())
        };
        let thread = Every::start(spawner, "follow-connect", Duration::ZERO, connect);
        let _thread = thread.map_err(LogError::io(dir, "start a thread for the copy of"))?;
        let client = match told.recv() {
            Ok(Event::Connected(client)) => (*client)?,
            Ok(Event::Stop) | Err(_) => return Err(Ended::Stopped),
        };
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = client.outgoing().ok();
        if self.is_asked() { Err(Ended::Stopped) } else { Ok(client) }
    }
}
