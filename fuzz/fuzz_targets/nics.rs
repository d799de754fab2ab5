//! Descriptions of NICs: any text gives an error in one line or a NIC whose costs add up.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_plan::nics::{Choice, Description};
use wharf_plan::plan::{Direction, Load, Question, plan};

fuzz_target!(|text: &str| {
    match Description::parse("fuzz.toml", text) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(description) => {
            let (load, choice) = (Load::one_size(64), Choice::default());
            let question =
                Question { load, cores: 12, direction: Direction::Tx, target: None, link: None, choice };
            // A feature may make another's numbers impossible, which is an error.
            if let Ok(plan) = plan(&description, &question) {
                assert!(plan.outcomes[2].pps <= plan.outcomes[0].pps);
            }
        }
    }
});
