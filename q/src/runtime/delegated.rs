//! Methods of hosts that wrap another one.

/// Methods of a wrapper that delegate to the host in its field `host`: all those that only read.
macro_rules! reads_of_host {
    () => {
        fn global(&self, name: Sym) -> Option<Value> {
            self.host.global(name)
        }

        fn names(&self, namespace: Sym) -> Vec<Sym> {
            self.host.names(namespace)
        }

        fn missing(&self, name: Sym) -> QError {
            self.host.missing(name)
        }

        fn is_restricted(&self) -> bool {
            self.host.is_restricted()
        }

        fn guarded(&self) -> &[std::path::PathBuf] {
            self.host.guarded()
        }

        fn shown_places(&self) -> &[(Sym, std::path::PathBuf)] {
            self.host.shown_places()
        }

        fn find_name(&self, is_it: &mut dyn FnMut(&Value) -> bool) -> Sym {
            self.host.find_name(is_it)
        }

        fn makes_code(&self, made: crate::runtime::host::Made<'_>) -> std::result::Result<(), QError> {
            self.host.makes_code(made)
        }

        fn namespaces(&self) -> Vec<Sym> {
            self.host.namespaces()
        }

        fn native(&self, name: Sym) -> Option<u8> {
            self.host.native(name)
        }

        fn caller(&self) -> &Caller {
            self.host.caller()
        }

        fn used_bytes(&self) -> [i64; 2] {
            self.host.used_bytes()
        }

        fn arguments(&self) -> Value {
            self.host.arguments()
        }

        fn command_line(&self) -> Value {
            self.host.command_line()
        }

        fn started_with(&self) -> Sym {
            self.host.started_with()
        }

        fn is_quiet(&self) -> bool {
            self.host.is_quiet()
        }

        fn blocks_writes(&self) -> bool {
            self.host.blocks_writes()
        }

        fn setting(&self, which: Setting) -> i64 {
            self.host.setting(which)
        }

        fn port(&self) -> i32 {
            self.host.port()
        }

        fn tls_settings(&self) -> Vec<(&'static str, String)> {
            self.host.tls_settings()
        }

        fn stack_of(
            &self,
            pid: u32,
            pace: &dyn Fn() -> std::result::Result<(), QError>,
        ) -> std::result::Result<Vec<u8>, QError> {
            self.host.stack_of(pid, pace)
        }

        fn open_handles(&self) -> Vec<i32> {
            self.host.open_handles()
        }

        fn socket(&self, handle: i32) -> Option<[u8; 2]> {
            self.host.socket(handle)
        }

        fn waiting_bytes(&self) -> Vec<(i32, i64)> {
            self.host.waiting_bytes()
        }

        fn origin(&self, name: Sym) -> Option<Origin> {
            self.host.origin(name)
        }

        fn rows_of(&self, column: &Shared<Sym>, symbol: Sym) -> Option<Vec<u32>> {
            self.host.rows_of(column, symbol)
        }

        fn console(&self) -> Console {
            self.host.console()
        }

        fn threads(&self) -> Threads {
            self.host.threads()
        }

        fn namespace(&self) -> Sym {
            self.host.namespace()
        }
    };
}
pub(crate) use reads_of_host;
