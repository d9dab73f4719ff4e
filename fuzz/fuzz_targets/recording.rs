#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coreshard_fuzz::targets::trace::recording(data));
