//! What Linux promises of its workqueues, asked of Coreshard's.
//!
//! The promises are those of the kernel's documentation: `Documentation/core-api/workqueue.rst`, and the
//! descriptions of the functions of `include/linux/workqueue.h` that it prints. No line is from the
//! kernel, which is licensed under GPL-2.0; each test says which promise it asks for. docs/KERNEL-OPERATIONS.md
//! tells what differs, function by function.

mod cancel;
mod concurrency;
mod delayed;
mod flush;
mod limits;
mod order;
mod places;
mod work;

testing::watch!();
