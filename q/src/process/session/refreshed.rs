//! Splayed tables of a loaded database, as they are on disk.

use super::Session;
use crate::io::files::loaded;
use crate::runtime::context::Context;
use crate::runtime::guard::Asking;
use crate::runtime::host::{Caller, Grants};

impl Session {
    /// Before an evaluation: reads the splayed tables of a loaded database again if they have changed on disk, on the owner's behalf.
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
