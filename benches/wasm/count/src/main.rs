//! Counts what reading a message costs as WebAssembly, in the fuel of an interpreter: about one unit
//! an instruction. Times depend on what else a machine does; these do not.
//!
//! usage: antiphon-bench-wasm-count MODULE
//!
//! Columns: a message read by itself, received within a conversation, read by serde_json; and the
//! first two divided by the third.
//!
//! Rule: only `run` is counted; what makes ready for it is not.

use std::process::ExitCode;

use wasmi::{Config, Engine, Error, Extern, Instance, Module, Store, TypedFunc};

/// Runs before anything is counted: tables have grown.
const WARM: usize = 2;
/// Runs that are counted: with them the whole mix is read once.
const RUNS: usize = 8;

struct Host {
    store: Store<()>,
    instance: Instance,
}

impl Host {
    fn new(module: &[u8]) -> Result<Self, Error> {
        let engine = Engine::new(Config::default().consume_fuel(true));
        let module = Module::new(&engine, module)?;
        let mut store = Store::new(&engine, ());
        store.set_fuel(u64::MAX)?;
        let instance = Instance::new(&mut store, &module, &[])?;
        Ok(Self { store, instance })
    }

    /// Calls a function with an index, and gives its result and what it cost.
    fn call(&mut self, name: &str, index: i32) -> Result<u64, Error> {
        let function: TypedFunc<i32, ()> = self.instance.get_typed_func(&self.store, name)?;
        let before = self.store.get_fuel()?;
        function.call(&mut self.store, index)?;
        Ok(before - self.store.get_fuel()?)
    }

    fn ask(&mut self, name: &str, index: i32) -> Result<u32, Error> {
        let function: TypedFunc<i32, i32> = self.instance.get_typed_func(&self.store, name)?;
        function
            .call(&mut self.store, index)
            .map(|answer| answer as u32)
    }

    fn name(&mut self, index: i32) -> Result<String, Error> {
        let (at, len) = (self.ask("name", index)?, self.ask("name_len", index)?);
        let memory = self.instance.get_export(&self.store, "memory");
        let memory = memory
            .and_then(Extern::into_memory)
            .ok_or(Error::new("no memory"))?;
        let mut text = vec![0; len as usize];
        memory
            .read(&self.store, at as usize, &mut text)
            .map_err(|error| Error::new(error.to_string()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What one message costs.
    fn measure(&mut self, index: i32) -> Result<f64, Error> {
        let mut spent = 0;
        for run in 0..WARM + RUNS {
            let cost = self.call("run", index)?;
            if run >= WARM {
                spent += cost;
            }
            self.call("between", index)?;
        }
        Ok(spent as f64 / (RUNS as f64 * f64::from(self.ask("count", index)?)))
    }
}

fn count(path: &str) -> Result<(), Error> {
    let module = std::fs::read(path).map_err(|error| Error::new(format!("{path}: {error}")))?;
    let mut host = Host::new(&module)?;
    let operations: TypedFunc<(), i32> = host.instance.get_typed_func(&host.store, "operations")?;
    let operations = operations.call(&mut host.store, ())?;
    println!("       read     receive       serde   read  receive  item");
    for index in (0..operations).step_by(3) {
        let (read, receive) = (host.measure(index)?, host.measure(index + 1)?);
        let (serde, name) = (host.measure(index + 2)?, host.name(index)?);
        println!(
            "{read:11.0} {receive:11.0} {serde:11.0}  {:5.2}    {:5.2}  {}",
            read / serde,
            receive / serde,
            name.trim_start_matches("parse ")
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: antiphon-bench-wasm-count MODULE");
        return ExitCode::from(2);
    };
    match count(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antiphon-bench-wasm-count: {error}");
            ExitCode::FAILURE
        }
    }
}
