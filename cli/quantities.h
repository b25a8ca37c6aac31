// Quantities with units as users write them on the command line: "72GB", "5s", "200GB/s", "15T".
//
//   read_seconds("--budget", "2m", "5s or 2m")  // 120
//   read_bytes("--memory", "80GiB", "72GB or 80GiB")  // 85.9e9
//   read_rate("--checkpoint-bandwidth", "200GB/s")  // 200e9 bytes/s
//   read_count("--tokens", "15T")  // 15e12
//
// A number above 0 (also 0 with `or_zero`) followed directly by one of the units. Throws Error (bad input) at
// the flag, naming the examples: `--budget: got "-1s", expected a time such as 5s or 2m`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace boxcar::cli {

// In s: us, ms, s, m, h, d.
double read_seconds(const std::string& flag, const std::string& text, const std::string& examples,
                    bool or_zero = false);
// MB, GB, TB, MiB, GiB.
double read_bytes(const std::string& flag, const std::string& text, const std::string& examples);
// The same per second: "200GB/s".
double read_rate(const std::string& flag, const std::string& text);
// k, M, B and T, in either case, are thousand, million, billion (10^9) and trillion (10^12): a count has no
// smaller parts. Bytes have one spelling, since Gb is a gigabit elsewhere.
double read_count(const std::string& flag, const std::string& text);
// "2%" or "0.02": 0.02; nothing if it is not a number.
std::optional<double> read_share(std::string_view text);

// A whole number without a fraction, others with all their digits: "12", "0.05".
std::string plain_number(double value);
// The same units, three digits: number_text(189'196) == "189k"; duration_text(504) == "8.4 m".
std::string number_text(double number);
std::string duration_text(double seconds);
// 0.1234 as "12.3 %", with a sign as "+12.3 %"; a share that rounds to 0 has none: "0.0 %".
std::string percent_text(double share);
std::string signed_percent_text(double share);
// "1 GPU", "8 GPUs"
std::string counted(int64_t number, const std::string& what);

}  // namespace boxcar::cli
