//! The simulator's command line: runs seeds on all cores, says how far it is, and shows the
//! smallest trace of a seed that fails.

use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kcoord_sim::breaks::{BREAKS, Break};
use kcoord_sim::coverage::Coverage;
use kcoord_sim::faults::{FAULTS, Fault};
use kcoord_sim::plan::{Options, Plan};
use kcoord_sim::run;

const HELP: &str = "\
Runs the group coordinator through faults that are drawn from seeds, and checks that it holds.

Usage: kcoord-sim [--seeds FIRST:LAST] [--seconds N] [options]

  --seeds FIRST:LAST    seeds to run, both included; one number is one seed (default: 1:1000)
  --seconds N           stop after so long; without --seeds it goes on from seed 1 until then
  --threads N           default: one for each core
  --break NAME          break something on purpose: the run must fail (`--break list`)
  --trace               show everything that happens in one seed
  --no-shrink           show the failing run as it was, not the smallest that fails

What a failing run prints to repeat it, and what takes away from a run:

  --calm-at MS          faults stop at this time, in milliseconds
  --without-clients LIST   e.g. 3,7
  --without-faults LIST    e.g. crash,drop (`--without-faults list`)
  --skip LIST              single strikes, e.g. crash:2,drop:17

Examples:

  cargo run --release -p kcoord-sim -- --seeds 1:10000
  cargo run --release -p kcoord-sim -- --seconds 60
  cargo run --release -p kcoord-sim -- --break release-early
  cargo run --release -p kcoord-sim -- --seeds 77 --trace

Exit code: 0 if every invariant held, 1 if one failed, 2 for a wrong command.
";

/// Requests after which a run must have met everything that `Coverage::missing` names.
const COVERED_AFTER_REQUESTS: u64 = 2_000_000;

struct Arguments {
    first: u64,
    last: u64,
    seconds: Option<u64>,
    threads: usize,
    is_shrunk: bool,
    options: Options,
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("kcoord-sim: {error}\nTry --help.\n"));
            return ExitCode::from(2);
        }
    };
    // Panics are findings: they are reported with their seed, not where they happen.
    std::panic::set_hook(Box::new(|_| {}));
    if arguments.options.trace {
        return show_trace(&arguments);
    }
    run_seeds(&arguments)
}

fn say(text: &str) {
    // There is no other place for a message if this fails.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    let _ = std::io::stdout().lock().flush();
}

fn parse() -> Result<Option<Arguments>, String> {
    use lexopt::prelude::*;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut seeds = None;
    let mut arguments = Arguments {
        first: 1,
        last: 1_000,
        seconds: None,
        threads: cores,
        is_shrunk: true,
        options: Options::default(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        let name = match argument {
            Short('h') => "help".to_owned(),
            Long(name) => name.to_owned(),
            other => return Err(other.unexpected().to_string()),
        };
        let mut value = || -> Result<String, String> {
            let value = parser.value().map_err(|error| error.to_string())?;
            value.into_string().map_err(|raw| format!("{} is not UTF-8", raw.display()))
        };
        match &*name {
            "help" => {
                say(HELP);
                return Ok(None);
            }
            "seeds" => seeds = Some(seed_range(&value()?)?),
            "seconds" => arguments.seconds = Some(number("--seconds", &value()?)?),
            "threads" => arguments.threads = number("--threads", &value()?)?.max(1) as usize,
            "trace" => arguments.options.trace = true,
            "no-shrink" => arguments.is_shrunk = false,
            _ => {
                let Some(add) = addition(&name) else {
                    return Err(format!("--{name} is no option"));
                };
                let value = value()?;
                if value == "list" {
                    list(&name);
                    return Ok(None);
                }
                add(&mut arguments.options, &value)?;
            }
        }
    }
    let forever = (1, if arguments.seconds.is_some() { u64::MAX } else { 1_000 });
    (arguments.first, arguments.last) = seeds.unwrap_or(forever);
    Ok(Some(arguments))
}

type Addition = fn(&mut Options, &str) -> Result<(), String>;

/// What an option that takes something away from a run does with its value.
fn addition(name: &str) -> Option<Addition> {
    match name {
        "break" => Some(|options, name| {
            let unknown = || format!("--break: nothing is named {name}; try --break list");
            options.broken = Some(Break::from_name(name).ok_or_else(unknown)?);
            Ok(())
        }),
        "calm-at" => Some(|options, value| {
            options.calm_at_ms = Some(number("--calm-at", value)? as i64);
            Ok(())
        }),
        "without-clients" => Some(|options, list| {
            for client in list.split(',') {
                options.without_clients.push(number("--without-clients", client)? as usize);
            }
            Ok(())
        }),
        "without-faults" => Some(|options, list| {
            for name in list.split(',') {
                options.without_faults.push(fault("--without-faults", name)?);
            }
            Ok(())
        }),
        "skip" => Some(|options, list| {
            for strike in list.split(',') {
                let (name, at) = strike.split_once(':').ok_or_else(|| {
                    format!("--skip: {strike} is not a fault and a number, as crash:2 is")
                })?;
                options.skip.push((fault("--skip", name)?, number("--skip", at)? as u32));
            }
            Ok(())
        }),
        _ => None,
    }
}

/// The names that an option knows.
fn list(name: &str) {
    if name == "break" {
        for broken in BREAKS {
            say(&format!("{:<20} breaks {}\n", broken.name(), broken.breaks()));
        }
    } else {
        FAULTS.iter().for_each(|fault| say(&format!("{fault}\n")));
    }
}

fn number(option: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{option}: {text} is not a whole number"))
}

fn fault(option: &str, name: &str) -> Result<Fault, String> {
    let unknown = || format!("{option}: no fault is named {name}; try --without-faults list");
    Fault::from_name(name).ok_or_else(unknown)
}

fn seed_range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let (first, last) = (number("--seeds", first)?, number("--seeds", last)?);
    if first > last {
        return Err(format!("--seeds: {first} comes after {last}"));
    }
    Ok((first, last))
}

fn show_trace(arguments: &Arguments) -> ExitCode {
    let outcome = run::check(arguments.first, &arguments.options);
    for line in &outcome.lines {
        say(&format!("{line}\n"));
    }
    say(&format!("seed {}: trace {:08x}, ", arguments.first, outcome.hash));
    match outcome.violation {
        None => {
            say("every invariant held\n");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            say(&format!("{} FAILED: {}\n", violation.invariant, violation.message));
            ExitCode::FAILURE
        }
    }
}

fn run_seeds(arguments: &Arguments) -> ExitCode {
    let started = Instant::now();
    let until = arguments.seconds.map(|seconds| started + Duration::from_secs(seconds));
    let next = AtomicU64::new(arguments.first);
    let done = AtomicU64::new(0);
    let has_ended = AtomicBool::new(false);
    let total = Mutex::new(Coverage::default());
    let failed: Mutex<Option<u64>> = Mutex::new(None);
    let worker = || {
        while !has_ended.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > arguments.last || until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let outcome = run::check(seed, &arguments.options);
            done.fetch_add(1, Ordering::Relaxed);
            total.lock().expect("no worker panics").add(&outcome.coverage);
            if outcome.violation.is_some() {
                let mut failed = failed.lock().expect("no worker panics");
                *failed = Some(failed.map_or(seed, |before| before.min(seed)));
                has_ended.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads).map(|_| scope.spawn(worker)).collect();
        let mut last_said = Instant::now();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(20));
            if last_said.elapsed() >= Duration::from_secs(5) {
                last_said = Instant::now();
                let requests = total.lock().expect("no worker panics").requests;
                let (seeds, seconds) = (done.load(Ordering::Relaxed), started.elapsed().as_secs());
                say(&format!("{seconds:>5} s: {seeds} seeds, {requests} requests\n"));
            }
        }
    });
    let total = total.into_inner().expect("no worker panics");
    summary(&total, started.elapsed(), arguments.threads);
    match failed.into_inner().expect("no worker panics") {
        Some(seed) => {
            report(seed, arguments);
            ExitCode::FAILURE
        }
        None => verdict(&total),
    }
}

fn verdict(total: &Coverage) -> ExitCode {
    let missing = total.missing();
    if total.requests >= COVERED_AFTER_REQUESTS && !missing.is_empty() {
        say(&format!("FAILED: in so many requests this never happened: {}\n", missing.join(", ")));
        return ExitCode::FAILURE;
    }
    say("every invariant held\n");
    ExitCode::SUCCESS
}

fn summary(total: &Coverage, elapsed: Duration, threads: usize) {
    let list = |counts: Vec<(String, u64)>| {
        let counts = counts.into_iter().map(|(name, count)| format!("{name} {count}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    let named = |(name, count): (&'static str, u64)| (name.to_owned(), count);
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = total.requests as f64 / seconds;
    say(&format!(
        "{} runs, {} requests, {} turns in {seconds:.1} s: {:.0} requests/s, {:.0} per thread\n",
        total.runs,
        total.requests,
        total.turns,
        rate,
        rate / threads as f64
    ));
    say(&format!("faults: {}\n", list(total.faults().map(named).collect())));
    say(&format!("met: {}\n", list(total.happened().map(named).collect())));
    let codes = total.codes().into_iter().map(|(code, count)| (format!("{code:?}"), count));
    say(&format!("answers: {}\n", list(codes.collect())));
}

/// The failing seed again, as small as it gets.
fn report(seed: u64, arguments: &Arguments) {
    let mut options = arguments.options.clone();
    if arguments.is_shrunk {
        say(&format!("seed {seed} fails; looking for the smallest run that does\n"));
        options = run::shrink(seed, &options, |attempts| {
            if attempts.is_multiple_of(50) {
                say(&format!("  {attempts} attempts\n"));
            }
        });
    }
    let outcome = run::check(seed, &Options { trace: true, ..options.clone() });
    const SHOWN: usize = 200;
    let skipped = outcome.lines.len().saturating_sub(SHOWN);
    if skipped > 0 {
        say(&format!("... {skipped} lines before\n"));
    }
    for line in &outcome.lines[skipped..] {
        say(&format!("{line}\n"));
    }
    let clients = Plan::new(seed).clients.len() - options.without_clients.len();
    let Some(violation) = outcome.violation else {
        say("the run does not fail again: what it depends on is not drawn from its seed\n");
        return;
    };
    say(&format!(
        "\nFAILED at {} ms: {}\n{}\n{clients} clients, {} strikes\n",
        outcome.ended_ms,
        violation.invariant,
        violation.message,
        outcome.strikes.len()
    ));
    say(&format!("to see it again:\n  {}\n", command(seed, &options)));
}

fn command(seed: u64, options: &Options) -> String {
    let mut command = format!("cargo run --release -p kcoord-sim -- --seeds {seed} --trace");
    let mut add = |option: &str, values: Vec<String>| {
        if !values.is_empty() {
            command.push_str(&format!(" --{option} {}", values.join(",")));
        }
    };
    add("break", options.broken.iter().map(|broken| broken.name().to_owned()).collect());
    add("calm-at", options.calm_at_ms.iter().map(i64::to_string).collect());
    add("without-clients", options.without_clients.iter().map(usize::to_string).collect());
    add("without-faults", options.without_faults.iter().map(Fault::to_string).collect());
    let strikes = options.skip.iter().map(|(fault, at)| format!("{fault}:{at}"));
    add("skip", strikes.collect());
    command
}
