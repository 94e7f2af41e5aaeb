//! `cargo +nightly fuzz run decoder fuzz/corpus fuzz/seeds/decoder` from the folder above.
#![no_main]

use boxoffice_supervisor::wire::message::{Attach, Dial, Op, Spare, Start, Welcome};
use boxoffice_supervisor::wire::{Ack, Decoder, Item, Kind, object};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first byte says where the rest is cut.
    let Some((cut, rest)) = input.split_first() else { return };
    let (first, second) = rest.split_at(usize::from(*cut).min(rest.len()));
    let mut decoder = Decoder::default();
    for mut piece in [first, second] {
        while let Ok(Some(item)) = decoder.next(&mut piece) {
            let Item::Frame { kind, payload } = item else { continue };
            match kind {
                Kind::Start => drop(object::<Start>(payload)),
                Kind::Attach => drop(object::<Attach>(payload)),
                Kind::Dial => drop(object::<Dial>(payload)),
                Kind::Welcome => drop(object::<Welcome>(payload)),
                Kind::Call => drop(object::<Op>(payload)),
                Kind::Spare => drop(object::<Spare>(payload)),
                Kind::Ack => drop(Ack::parse(payload)),
                _ => {}
            }
        }
    }
});
