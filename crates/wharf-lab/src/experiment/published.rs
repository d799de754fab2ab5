//! Published figures, from `parameters/published.toml`.

use super::LabError;

const FILE: &str = include_str!("../../parameters/published.toml");

/// Returns the figure under `path`, keys joined by points: `bulk_dequeue.trafgen_12cpu_bulk_mpps`. In a list,
/// a number is the key: `pcie.xdp_tx_readings_mpps.1.0`.
///
/// # Errors
/// [`LabError::File`]: there is no such number.
pub fn figure(path: &str) -> Result<f64, LabError> {
    let fault = |what: String| LabError::File { file: "published.toml".into(), what };
    let table: toml::Table =
        FILE.parse().map_err(|error: toml::de::Error| fault(error.message().to_string()))?;
    let mut value = &toml::Value::Table(table);
    for key in path.split('.') {
        let nth = value.as_array().and_then(|list| list.get(key.parse::<usize>().ok()?));
        value = nth.or_else(|| value.get(key)).ok_or_else(|| fault(format!("there is no {path}")))?;
    }
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    number.ok_or_else(|| fault(format!("{path} is no number")))
}
