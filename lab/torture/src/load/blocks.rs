//! Block requests, in memory and in a file. The data that they wrote is read back.

use std::sync::Arc;

use coreshard::Host;
use coreshard::block::{
    Backend, Engine, File, FileOptions, HostAdapter, HostOptions, Memory, QueueOptions, Request,
};
use fastrand::Rng;

use super::Site;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16;

pub(super) fn in_memory(site: &Site, rng: &mut Rng) {
    // If a device gets no memory or thread, the machine is at fault.
    let _ = write_and_read(site, rng, Arc::new(Memory::new(BLOCKS * BLOCK as u64)));
}

pub(super) fn in_a_file(site: &Site, rng: &mut Rng) {
    let path = site.folder.path().join(format!("{:x}", rng.u64(..)));
    if std::fs::write(&path, vec![0; BLOCKS as usize * BLOCK]).is_err() {
        return;
    }
    let engine = match rng.u32(..3) {
        0 => Engine::Auto,
        1 => Engine::IoUring,
        _ => Engine::Sync,
    };
    let options = FileOptions { write: true, engine, ..FileOptions::default() };
    if let Ok(file) = File::open(&path, options) {
        let _ = write_and_read(site, rng, Arc::new(file));
    }
    let _ = std::fs::remove_file(&path);
}

fn write_and_read(
    site: &Site,
    rng: &mut Rng,
    backend: Arc<dyn Backend<Host>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let host = HostAdapter::new(HostOptions::default())?;
    let device = host.target("torture").device(backend)?;
    let mut queue = device.queue(0, QueueOptions::default())?;
    let value = rng.u8(1..);
    let mut accepted = 0;
    for block in 0..BLOCKS {
        let request = Request::write(block * BLOCK as u64, vec![value; BLOCK]);
        accepted += u64::from(queue.submit(request, block).is_ok());
    }
    let mut written = [false; BLOCKS as usize];
    while let Some(completed) = queue.wait_for_one() {
        accepted -= 1;
        written[completed.cookie as usize] = completed.result.is_ok();
    }
    site.ledger.check(accepted == 0, "a block request was lost");
    for block in (0..BLOCKS).filter(|block| written[*block as usize]) {
        let read = queue.send(Request::read(block * BLOCK as u64, vec![0; BLOCK]));
        let completed = queue.block_on(read);
        if completed.result.is_ok() {
            let data = completed.payload.into_one();
            let is_whole = data.is_some_and(|data| data.iter().all(|byte| *byte == value));
            site.ledger.check(is_whole, "a block does not have the data that was written");
        }
    }
    // Sometimes dropped with requests in flight.
    if rng.bool() {
        let _ = queue.submit(Request::read(0, vec![0; BLOCK]), 0);
    }
    Ok(())
}
