//! Keeps the splayed tables of a loaded database as they are on disk.

use super::Session;
use crate::io::files::loaded;
use crate::runtime::context::Context;
use crate::runtime::guard::Asking;
use crate::runtime::host::{Caller, Grants};

impl Session {
    /// Called before a message or a console line is evaluated: reads the loaded splayed tables again that have changed on disk. This happens with the
    /// owner's rights, so that clients without access to files see the changes too.
    pub fn refresh_tables(&mut self) {
        if !loaded::is_any_loaded() {
            return;
        }
        let asking = std::mem::replace(&mut self.asking, Asking::new(Caller::default(), Grants::default()));
        let limits = self.own_limits();
        loaded::refresh(&mut Context::new(self, &limits));
        self.asking = asking;
    }
}
