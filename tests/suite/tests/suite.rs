//! Plays every script of `scripts/` over every adapter and transport, and prints how many passed in
//! each cell.
//!
//! Takes some arguments of the standard harness, a filter on the scripts' names and `--list`, and
//! `--runtime=NAME`, which plays over one adapter only. Each adapter runs in a process of its own,
//! because smol and async-std cannot share one. This program is also the server of scripts over
//! standard streams, and the relay to which a client over standard streams connects.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use antiphon_peer::runtime::Runtime;
use antiphon_peer::tls::Tls;
use antiphon_suite::cell::{Cell, Transport, check_home};
use antiphon_suite::play::play;
use antiphon_suite::script::{Script, read_all};
use antiphon_suite::table::{Played, exclusions, missing, table};

/// So many scripts pass, over all cells. The number may only grow.
const PASSED_MIN: usize = 4980;

/// So many scripts are played in each cell, whatever its transport excludes.
const CELL_MIN: usize = 115;

/// How many scripts an adapter plays at once: most of them wait.
const SIDE_BY_SIDE: usize = 8;

/// So many of the slowest scripts are named.
const SLOWEST_SHOWN: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("contract") => ExitCode::from(antiphon_peer::run(arguments.into_iter().skip(1))),
        Some("relay") => relay(&arguments[1]),
        Some("cells") => cells(&arguments[1], &arguments[2..]),
        _ => every_script_passes_on_every_adapter_and_transport(&arguments),
    }
}

fn scripts() -> Result<Vec<Script>, String> {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = read_all(&suite.join("scripts"))?;
    scripts.extend(read_all(&suite.join("../regressions/wire"))?);
    Ok(scripts)
}

// TST-07 ARC-15
fn every_script_passes_on_every_adapter_and_transport(arguments: &[String]) -> ExitCode {
    let scripts = match scripts() {
        Ok(scripts) => scripts,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let filters: Vec<String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .cloned()
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for script in scripts.iter().filter(|script| is_chosen(script, &filters)) {
            println!("suite/{}: test", script.name());
        }
        return ExitCode::SUCCESS;
    }
    let named = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--runtime="));
    if let Some(unknown) = named.filter(|name| Runtime::named(name).is_none()) {
        eprintln!("no adapter {unknown}");
        return ExitCode::from(2);
    }
    let began = Instant::now();
    let (played, mut failures) = play_everywhere(named, &filters);
    let is_whole = filters.is_empty() && named.is_none();
    if played.is_empty() && filters.is_empty() {
        failures.push("nothing was played".to_owned());
    }
    let passed = played.iter().filter(|played| played.failed.is_none());
    println!(
        "\nscripts passed, per adapter and transport, of {}:",
        scripts.len()
    );
    println!("{}", table(&played));
    println!(
        "{} passed in all, {:.1} s",
        passed.count(),
        began.elapsed().as_secs_f64()
    );
    println!("{}", slowest(&played));
    failures.extend(grouped(&played));
    if is_whole {
        print!("\n{}", exclusions(&scripts));
        failures.extend(missing(&scripts, &played, CELL_MIN, PASSED_MIN));
    }
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!();
    for script in scripts.iter().filter(|script| is_chosen(script, &filters)) {
        let name = script.name();
        let mut cells = played.iter().filter(|played| played.script == name);
        let verdict = verdict(cells.all(|played| played.failed.is_none()));
        println!("test suite/{name} ... {verdict}");
    }
    let name = "every_script_passes_on_every_adapter_and_transport";
    println!("test {name} ... {}", verdict(failures.is_empty()));
    match failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(101),
    }
}

fn verdict(is_passed: bool) -> &'static str {
    match is_passed {
        true => "ok",
        false => "FAILED",
    }
}

/// The scripts that took longest, each by its slowest cell.
fn slowest(played: &[Played]) -> String {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for played in played {
        let most = most.entry(&played.script).or_default();
        *most = played.millis.max(*most);
    }
    let mut most: Vec<(u64, &str)> = most.into_iter().map(|(name, ms)| (ms, name)).collect();
    most.sort_unstable();
    let shown = most.iter().rev().take(SLOWEST_SHOWN);
    let shown: Vec<String> = shown
        .map(|(ms, name)| format!("{name} ({ms} ms)"))
        .collect();
    format!("slowest: {}", shown.join("; "))
}

/// What went wrong, once for all the cells where it did.
fn grouped(played: &[Played]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for played in played {
        if let Some(why) = &played.failed {
            let cell = format!("{} over {}", played.runtime, played.transport);
            let group = groups.entry((&played.script, why));
            group.or_default().push(cell);
        }
    }
    let line = |((script, why), mut cells): ((&str, &str), Vec<String>)| {
        cells.sort();
        format!("{script}: {why}\n    in {}", cells.join(", "))
    };
    groups.into_iter().map(line).collect()
}

fn is_chosen(script: &Script, filters: &[String]) -> bool {
    let name = script.name();
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

/// Runs one process for each adapter, or for the one that is named. Returns what was played, and an
/// error for each process that failed.
fn play_everywhere(named: Option<&str>, filters: &[String]) -> (Vec<Played>, Vec<String>) {
    let (all, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let is_named = |runtime: &Runtime| named.is_none_or(|name| runtime.name() == name);
        for runtime in Runtime::ALL.into_iter().filter(is_named) {
            let (all, failures) = (&all, &failures);
            scope.spawn(move || match play_on(runtime, filters) {
                Ok(played) => all.lock().expect("no panic").extend(played),
                Err(why) => failures.lock().expect("no panic").push(why),
            });
        }
    });
    (
        all.into_inner().expect("no panic"),
        failures.into_inner().expect("no panic"),
    )
}

fn play_on(runtime: Runtime, filters: &[String]) -> Result<Vec<Played>, String> {
    let told = |error: io::Error| format!("{runtime}: {error}");
    let mut child = Command::new(std::env::current_exe().map_err(told)?)
        .args(["cells", runtime.name()])
        .args(filters)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(told)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let log = thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            // If it fails, what was read before is shown.
            let _ = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut played = Vec::new();
    if let Some(stdout) = stdout {
        for line in BufReader::new(stdout).lines() {
            played.extend(Played::of_line(&line.map_err(told)?));
        }
    }
    let status = child.wait().map_err(told)?;
    let log = log.join().unwrap_or_default();
    if !status.success() {
        return Err(format!(
            "{runtime}: its process ended with {status}:\n{log}"
        ));
    }
    Ok(played)
}

/// All the cells of one adapter.
fn cells(runtime: &str, filters: &[String]) -> ExitCode {
    // The panics of the method `crash` are expected, and not printed.
    std::panic::set_hook(Box::new(|panic| {
        let said = panic.payload().downcast_ref::<&str>();
        if said.is_none_or(|text| *text != "asked to crash") {
            eprintln!("{panic}");
        }
    }));
    let Some(runtime) = Runtime::named(runtime) else {
        eprintln!("no adapter {runtime}");
        return ExitCode::from(2);
    };
    let (scripts, executor) = match (scripts(), runtime.start()) {
        (Ok(scripts), Ok(executor)) => (scripts, executor),
        (scripts, executor) => {
            eprintln!("{:?} {:?}", scripts.err(), executor.err());
            return ExitCode::from(2);
        }
    };
    let home = executor
        .as_ref()
        .map(|executor| check_home(runtime, executor));
    if let Some(Err(why)) = home {
        eprintln!("{why}");
        return ExitCode::from(2);
    }
    let tls = match Tls::self_made() {
        Ok(tls) => Arc::new(tls),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut todo = Vec::new();
    for script in scripts.iter().filter(|script| is_chosen(script, filters)) {
        let played = Transport::ALL
            .into_iter()
            .filter(|transport| script.excludes(*transport).is_none());
        todo.extend(played.map(|transport| (script, transport)));
    }
    todo.reverse();
    let todo = Mutex::new(todo);
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().expect("no panic").pop();
                    let Some((script, transport)) = next else {
                        return;
                    };
                    let cell = Cell {
                        runtime,
                        executor: executor.clone(),
                        transport,
                        tls: Arc::clone(&tls),
                    };
                    let began = Instant::now();
                    let failed = play(script, &cell).err();
                    let played = Played {
                        runtime: runtime.name().to_owned(),
                        transport,
                        script: script.name(),
                        millis: began.elapsed().as_millis() as u64,
                        failed,
                    };
                    println!("{}", played.to_line());
                }
            });
        }
    });
    ExitCode::SUCCESS
}

/// Stands for a server over standard streams: everything goes to a plain peer at an address, and
/// everything from there to standard output.
fn relay(address: &str) -> ExitCode {
    let relayed = TcpStream::connect(address).and_then(|stream| {
        stream.set_nodelay(true)?;
        let mut there = stream.try_clone()?;
        thread::spawn(move || {
            // Whichever side ends, this direction has ended.
            let _ = io::copy(&mut io::stdin().lock(), &mut there);
            let _ = there.shutdown(Shutdown::Write);
        });
        let (mut back, mut out) = (stream, io::stdout().lock());
        let mut buf = vec![0; 64 << 10];
        loop {
            match back.read(&mut buf)? {
                0 => return Ok(()),
                n => out.write_all(&buf[..n]).and_then(|()| out.flush())?,
            }
        }
    });
    match relayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}
