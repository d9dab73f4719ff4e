#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coreshard_fuzz::targets::contention_file(data));
