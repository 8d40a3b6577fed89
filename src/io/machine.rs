//! What this machine and this process say of themselves (Linux: `/proc`): for the set-up that a benchmark names.
//! Unknown is unknown: nothing here fails.

use std::fs;

/// The machine that figures were taken on.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: f64,
    /// Average number of runnable processes over the last minute.
    pub load: f64,
}

impl Machine {
    pub fn look() -> Self {
        let memory_kib = value_of("/proc/meminfo", "MemTotal").unwrap_or(0);
        Machine {
            cpu: text_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib as f64 / (1024.0 * 1024.0),
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

/// The most memory that this process has held since its start, or since [`forget_peak_memory`], in bytes.
pub fn peak_memory_bytes() -> u64 {
    value_of("/proc/self/status", "VmHWM").unwrap_or(0) * 1024
}

/// Starts the peak from here. What the allocator keeps still counts.
pub fn forget_peak_memory() {
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        tracing::debug!(%error, "the peak of memory counts from the start of the process");
    }
}

/// Processor seconds that this process has used, all threads together. Counted in hundredths.
pub fn cpu_seconds() -> f64 {
    let stat = read("/proc/self/stat");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 =
        after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn text_of(file: &str, name: &str) -> Option<String> {
    let text = read(file);
    let found = text.lines().filter_map(|line| line.split_once(':')).find(|(field, _)| field.trim() == name);
    found.map(|(_, value)| value.trim().to_owned())
}

fn value_of(file: &str, name: &str) -> Option<u64> {
    text_of(file, name)?.split_whitespace().next()?.parse().ok()
}
