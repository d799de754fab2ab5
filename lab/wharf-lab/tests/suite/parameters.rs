//! Parameters: what --set may change, and the settings read from them.

use serde::Deserialize;
use wharf_lab::experiment::{Mark, Parameters, RowKind};

const TEXT: &str = "[a_ns]\nvalue = 3\nkind = \"assumed\"\nallowed = [1, 9]\nsource = \"why not\"\n";

#[test]
fn set_numbers_are_within_bounds_and_marked() {
    let mut parameters = Parameters::read("x", TEXT).unwrap();
    assert_eq!(parameters.get("a_ns").unwrap(), 3);
    parameters.set("a_ns=9").unwrap();
    let (_, parameter) = parameters.iter().next().unwrap();
    assert_eq!((parameter.value, parameter.kind), (9, Mark::Set));
    for (assignment, wanted) in [
        ("a_ns=10", "a_ns of \"10\" cannot be: want a whole number from 1 to 9"),
        ("a_ns=", "a_ns of \"\" cannot be: want a whole number from 1 to 9"),
        ("a_ns=-1", "a_ns of \"-1\" cannot be: want a whole number from 1 to 9"),
        ("a_ns=2.5", "a_ns of \"2.5\" cannot be: want a whole number from 1 to 9"),
        ("b=1", "x has no parameter \"b\": it has a_ns"),
        ("a_ns", "--set a_ns: want KEY=VALUE"),
        ("a_ns=8", "--set a_ns is given twice"),
    ] {
        let error = parameters.set(assignment).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_usage()), (wanted, true));
    }
    assert_eq!(parameters.get("a_ns").unwrap(), 9, "what was wrong has changed nothing");
}

#[test]
fn some_numbers_may_be_set_to_a_few_values_only() {
    let text = TEXT.replace("[1, 9]", "{ one_of = [1, 3, 8] }");
    let mut parameters = Parameters::read("x", &text).unwrap();
    parameters.set("a_ns=8").unwrap();
    let error = parameters.set("a_ns=2").unwrap_err();
    assert_eq!(error.to_string(), "a_ns of \"2\" cannot be: want one of 1, 3, 8");
    assert_eq!((parameters.get("a_ns").unwrap(), error.is_usage()), (8, true));
    assert_eq!(parameters.iter().next().unwrap().1.allowed.ends(), [1, 8]);
    let error = Parameters::read("x", &text.replace("= 3", "= 2")).unwrap_err().to_string();
    assert_eq!(error, "x.toml: a_ns of 2 is not one of 1, 3, 8");
}

#[test]
fn a_row_is_fitted_while_nothing_is_set() {
    let text = TEXT.replace("assumed", "fitted") + &TEXT.replace("a_ns", "b_ns");
    let mut parameters = Parameters::read("x", &text).unwrap();
    assert_eq!(parameters.fit(&["a_ns"]), RowKind::Fitted);
    parameters.set("b_ns=3").unwrap();
    assert_eq!(parameters.fit(&["a_ns"]), RowKind::Predicted, "whatever it was set to");
}

#[test]
fn wrong_file_is_an_error_of_one_line() {
    for (text, part) in [
        (TEXT.replace("= 3", "= 10"), "a_ns of 10 is not a whole number from 1 to 9"),
        (TEXT.replace("assumed", "guessed"), "guessed"),
        (TEXT.replace("source", "sauce"), "sauce"),
        ("[a".into(), "x.toml"),
    ] {
        let error = Parameters::read("x", &text).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
}

#[derive(Debug, PartialEq, Deserialize)]
struct Outer {
    small: u8,
    flag: bool,
    lock: Inner,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Inner {
    pair_ns: u64,
    gap_ns: u64,
}

#[test]
fn a_field_takes_the_number_of_its_name() {
    let entry = |key: &str, value: u64| {
        format!("[{key}]\nvalue = {value}\nkind = \"assumed\"\nallowed = [0, 999]\nsource = \"\"\n")
    };
    let text = [("small", 7), ("lock_pair_ns", 1), ("pair_ns", 2), ("gap_ns", 3), ("10g_gap_ns", 4)];
    let text: String = text.iter().map(|&(key, value)| entry(key, value)).collect();
    let parameters = Parameters::read("x", &text).unwrap();
    let settings = || parameters.settings().with("flag", 1);
    let lock = Inner { pair_ns: 1, gap_ns: 3 };
    assert_eq!(settings().read::<Outer>().unwrap(), Outer { small: 7, flag: true, lock });
    let fast: Outer = settings().of("10g").read().unwrap();
    assert_eq!(fast.lock, Inner { pair_ns: 1, gap_ns: 4 });
    let error = parameters.read_into::<Outer>().unwrap_err().to_string();
    assert!(error.starts_with("x has no parameter \"flag\": it has 10g_gap_ns"), "{error}");
    let error = settings().with("small", 256).read::<Outer>().unwrap_err().to_string();
    assert!(error.contains("small") && error.contains("256"), "{error}");
}
