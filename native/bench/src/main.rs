//! Runs one hot path alone, for the programs that count its instructions, time it or draw where
//! they go: benches/counts.py, benches/kafka and `make profile`. It judges nothing.

mod assigning;
mod axis;
mod codec;
mod consumers;
mod groups;
mod hosted;
mod loading;
mod requests;
mod rows;
mod sharded;
mod timers;
mod turns;
mod weighing;
mod work;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axis::{AXES, Axis};
use loading::{Kind, Log};
use work::Work;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Runs one hot path of the group coordinator alone, and says how long each round took.

Usage: kcoord-bench list
       kcoord-bench AXIS [--entries N] [--rounds N] [--seconds S] [--events]
       kcoord-bench AXIS [--entries N] --asked
       kcoord-bench write-log commits|groups|consumers RECORDS FILE
       kcoord-bench weigh GROUPS OFFSET_GROUPS
       kcoord-bench weigh-consumers GROUPS

  list            the axes: name, entries of a small run, what counts as one operation
  weigh           allocated bytes of a group of one, of an offset at 100 a group, of a single one;
                  weigh-consumers: of a consumer group of one
  --entries N     groups, timers, records or partitions (default: as listed)
  --rounds N      how often (default 1)
  --seconds S     further rounds until so much time was measured
  --events        with the events of groups told, of axes over one shard
  --asked         a round for each line that is read, so that rounds can alternate with others'

Each round prints its operations and nanoseconds: of the processor, and elapsed. What is measured
is all in one function, `kcoord_bench_measured`.

Example: cargo run --release -p kcoord-bench -- heartbeat --entries 100000 --rounds 20
";

enum Rounds {
    Number { least: usize, seconds: f64 },
    Asked,
}

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprint("kcoord-bench: figures of a debug build say nothing: use --release\n");
        return ExitCode::from(2);
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint(&format!("kcoord-bench: {error}\nTry --help.\n"));
            ExitCode::from(2)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn run() -> Result<(), Failure> {
    use lexopt::prelude::*;
    let (mut words, mut entries) = (Vec::new(), None);
    let (mut least, mut seconds, mut asked) = (1, 0.0, false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") | Short('h') => return say(HELP),
            Long("entries") => entries = Some(parser.value()?.parse()?),
            Long("rounds") => least = parser.value()?.parse()?,
            Long("seconds") => seconds = parser.value()?.parse()?,
            Long("asked") => asked = true,
            Long("events") => hosted::TELLS_EVENTS.store(true, Ordering::Relaxed),
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let rounds = if asked { Rounds::Asked } else { Rounds::Number { least, seconds } };
    match &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        ["list"] => AXES.iter().try_for_each(|axis| {
            say(&format!("{}\t{}\t{}\n", axis.name, axis.entries, axis.operation))
        }),
        ["write-log", kind, records, file] => write_log(kind, records.parse()?, file.into()),
        ["weigh", groups, offset_groups] => {
            let [group, offset, single] = weighing::weigh(groups.parse()?, offset_groups.parse()?);
            say(&format!("{group} {offset} {single}\n"))
        }
        ["weigh-consumers", groups] => {
            say(&format!("{}\n", weighing::weigh_consumers(groups.parse()?)))
        }
        [name] => {
            let axis = AXES.iter().find(|axis| axis.name == *name);
            let axis = axis.ok_or_else(|| format!("{name} is no axis (`kcoord-bench list`)"))?;
            measure(axis, entries.unwrap_or(axis.entries), &rounds)
        }
        _ => Err("one axis is needed".into()),
    }
}

/// What a counter counts, and a profiler draws.
#[inline(never)]
#[unsafe(no_mangle)]
fn kcoord_bench_measured(work: &mut dyn Work) -> u64 {
    work.round()
}

fn measure(axis: &Axis, entries: usize, rounds: &Rounds) -> Result<(), Failure> {
    let mut work = (axis.make)(entries);
    let (mut done, mut measured_ns) = (0, 0);
    loop {
        work.prepare();
        match rounds {
            Rounds::Number { least, seconds } => {
                if done >= *least && measured_ns as f64 >= seconds * 1e9 {
                    return Ok(());
                }
            }
            Rounds::Asked => {
                say("ready\n")?;
                if std::io::stdin().read_line(&mut String::new())? == 0 {
                    return Ok(());
                }
            }
        }
        let (since, since_ns) = (Instant::now(), processor_ns());
        let operations = kcoord_bench_measured(&mut *work);
        let elapsed_ns = since.elapsed().as_nanos();
        let used_ns = processor_ns().zip(since_ns).map(|(end, start)| u128::from(end - start));
        say(&format!("{operations} {} {elapsed_ns}\n", used_ns.unwrap_or(elapsed_ns)))?;
        done += 1;
        measured_ns += elapsed_ns;
    }
}

/// Nanoseconds that this thread has had of a processor, where the system tells.
fn processor_ns() -> Option<u64> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    account.split_whitespace().next()?.parse().ok()
}

fn write_log(kind: &str, records: usize, file: PathBuf) -> Result<(), Failure> {
    let kind = match kind {
        "commits" => Kind::Commits,
        "groups" => Kind::Groups,
        "consumers" => Kind::Consumers,
        other => return Err(format!("{other}: not commits, groups or consumers").into()),
    };
    Ok(std::fs::write(file, Log::new(records, kind).chunks.concat())?)
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn eprint(text: &str) {
    // There is no other place for a message if this fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
