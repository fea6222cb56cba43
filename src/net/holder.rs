//! Finds the process that listens on a port, from `/proc`.

use std::fs;

/// Limit of the processes examined.
const MAX_PROCESSES: usize = 20_000;
const LISTENS: &str = "0A";

/// Describes the process that listens on a TCP port; `None` if none is found, for example because this user may not see it.
pub(super) fn of_port(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let links: Vec<String> = tables.iter().flat_map(|table| sockets(table, port)).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten().take(MAX_PROCESSES);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    { numbers }.find(|process| has_any(*process, &links)).map(|process| {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        format!("process {process} ({})", name.trim().escape_debug())
    })
}

/// Links to the sockets that listen on a port, from a kernel table.
fn sockets(table: &str, port: u16) -> impl Iterator<Item = String> + '_ {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let (_, listening) = fields.nth(1)?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?;
        let is_it = u16::from_str_radix(listening, 16).ok()? == port && state == LISTENS;
        is_it.then(|| format!("socket:[{inode}]"))
    })
}

fn has_any(process: u32, links: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|link| links.iter().any(|known| link.as_os_str() == known.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_of_a_port_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1392 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100\n   \
                     1: 0100007F:1392 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100\n   \
                     2: 0100007F:1393 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100\n   x\n";
        assert_eq!(sockets(table, 5010).collect::<Vec<_>>(), ["socket:[4711]"]);
    }

    #[test]
    fn this_process_is_found_by_a_port_that_it_listens_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = of_port(listener.local_addr().unwrap().port()).unwrap();
        assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
    }
}
