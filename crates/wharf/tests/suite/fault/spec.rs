//! Specifications of faults, as users write them.

use std::time::Duration;
use wharf::testing::{Chance, FaultSpec};

#[test]
fn valid_faults_are_read() {
    let spec = FaultSpec::parse("seed=7,stall=1%:5ms,short=10%,error=1/1000,late=0.05%").unwrap();
    let expected = FaultSpec {
        seed: 7,
        stall: Chance::Millionths(10_000),
        stall_time: Duration::from_millis(5),
        short: Chance::Millionths(100_000),
        error: Chance::Every(1000),
        late: Chance::Millionths(500),
        ..FaultSpec::default()
    };
    assert_eq!(spec, expected);
    let all = FaultSpec::parse("lost=100%,reorder=1/1,alloc=0.0001%,error=0%").unwrap();
    assert_eq!((all.lost, all.reorder), (Chance::Millionths(1_000_000), Chance::Every(1)));
    let lasting = FaultSpec::parse("freeze=1/5,half=2%").unwrap();
    assert_eq!((lasting.freeze, lasting.half), (Chance::Every(5), Chance::Millionths(20_000)));
    assert_eq!(lasting.freeze_time, Duration::from_secs(1), "unless another is given");
    assert_eq!(FaultSpec::parse("freeze=1%:60s").unwrap().freeze_time, Duration::from_secs(60));
    assert_eq!((all.alloc, all.error, all.seed), (Chance::Millionths(1), Chance::Never, 1));
}

#[test]
fn invalid_options_give_one_line_with_the_valid_ones() {
    let keys = "its keys are seed, error, short, stall, lost, late, reorder, alloc, never, freeze, half";
    let chance = "write it like 1%, 0.05% or 1/100";
    for (text, message) in [
        ("drop=1%", format!("fault: unknown key \"drop\"; {keys}")),
        ("stall", format!("fault: \"stall\" is no key=value; {keys}")),
        ("stall=1%,", format!("fault: \"\" is no key=value; {keys}")),
        ("stall=1%,stall=2%", "fault: stall is given twice".into()),
        ("seed=x,stall=1%", "fault: seed: \"x\" is no number such as 7".into()),
        ("seed=-1,stall=1%", "fault: seed: \"-1\" is no number such as 7".into()),
        ("stall=1", format!("fault: stall: \"1\" is no chance: a share with its %; {chance}")),
        ("stall=", format!("fault: stall: \"\" is no chance: a share with its %; {chance}")),
        ("short=101%", format!("fault: short: \"101%\" is no chance: 100% is the most; {chance}")),
        ("short=-1%", format!("fault: short: \"-1%\" is no chance: a share with its %; {chance}")),
        ("lost=1/0", format!("fault: lost: \"1/0\" is no chance: one in how many?; {chance}")),
        ("lost=1%:1ms", format!("fault: lost: \"1%:1ms\" is no chance: a share with its %; {chance}")),
        ("late=1%:1kg", "fault: late: \"1kg\" is no time: write it like 1ms, 20us, 1.5s".into()),
        ("late=1%:2min", "fault: late: 2min is beyond 60s".into()),
        ("freeze=1%:61s", "fault: freeze: 61s is beyond 60s".into()),
        ("half=1%:1ms", format!("fault: half: \"1%:1ms\" is no chance: a share with its %; {chance}")),
        ("seed=7", "fault: that is no fault: name at least one, such as stall=1%".into()),
        ("", "fault: that is no fault: name at least one, such as stall=1%".into()),
        ("error=0%", "fault: that is no fault: name at least one, such as stall=1%".into()),
    ] {
        assert_eq!(FaultSpec::parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
}
