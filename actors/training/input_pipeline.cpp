#include "actors/training/input_pipeline.h"

#include <algorithm>

#include "backends/host/images.h"
#include "planner/input_pipeline.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::training {

using backends::Moment;

InputPipeline::InputPipeline(const backends::host::EncodedSamples& samples, const planner::Place& images,
                             const ir::Plan& plan, int64_t global_batch, const backends::Backend& backend)
    : samples_(samples),
      images_(images),
      global_batch_(global_batch),
      rings_(static_cast<size_t>(plan.devices)) {
  for (const ir::RankClass& cls : plan.classes)
    for (const ir::Actor& actor : at(plan.programs, cls.program).actors) {
      if (!actor.is(ir::OpKind::decode)) continue;
      const ir::Register& reg = at(at(plan.programs, cls.program).registers, actor.outputs[0]);
      for (const int device : cls.devices) {
        if (!backend.is_local(device)) continue;
        const int64_t rows = at(images.ranges, device)[0].size();
        const auto decoders = static_cast<size_t>(ir::attr_int(actor.attrs, "decoders"));
        at(rings_, device).files.assign(static_cast<size_t>(reg.count), Files(static_cast<size_t>(rows)));
        at(rings_, device)
            .pixels.assign(static_cast<size_t>(reg.count),
                           {std::vector<int64_t>(decoders, -1),
                            std::vector<uint8_t>(static_cast<size_t>(rows * samples.pixels()))});
      }
    }
}

void InputPipeline::act(int device, const ir::Actor& actor, const Moment& moment) {
  try {
    prepare(device, actor, moment);
  } catch (const Error& error) {
    throw Error::fault("", error.what());
  }
}

void InputPipeline::prepare(int device, const ir::Actor& actor, const Moment& moment) {
  Rings& rings = at(rings_, device);
  const int64_t slot = number(moment) % std::ssize(rings.files);
  const sbp::Range& rows = at(images_.ranges, device)[0];
  const int64_t first = first_sample(moment) + rows.begin;
  Files& files = at(rings.files, slot);
  if (actor.is(ir::OpKind::read)) {
    for (int64_t row = 0; row < rows.size(); ++row) at(files, row) = samples_.file(first + row);
    return;
  }
  Pixels& pixels = at(rings.pixels, slot);
  const int64_t part = ir::attr_int(actor.attrs, "part");
  const auto [from, to] = planner::decoded_rows(rows.size(), part, ir::attr_int(actor.attrs, "decoders"));
  for (int64_t row = from; row < to; ++row) {
    samples_.decode(
        first + row, at(files, row),
        std::span(pixels.bytes)
            .subspan(static_cast<size_t>(row * sample_bytes()), static_cast<size_t>(sample_bytes())));
    at(files, row) = {};
  }
  at(pixels.numbers, part) = number(moment);
}

void InputPipeline::load(int device, const Moment& moment, std::span<std::byte> bytes) const {
  const Rings& rings = at(rings_, device);
  const auto& ranges = at(images_.ranges, device);
  const std::span inner = std::span(ranges).subspan(1);
  const bool wide = images_.type.dtype == ir::DType::float64;
  const Pixels* const pixels =
      rings.pixels.empty() ? nullptr : &at(rings.pixels, number(moment) % std::ssize(rings.pixels));
  const bool decoded = pixels && std::all_of(pixels->numbers.begin(), pixels->numbers.end(),
                                             [&](int64_t number_of) { return number_of == number(moment); });
  std::byte* out = bytes.data();
  for (int64_t row = 0; row < ranges[0].size(); ++row)
    out += decoded ? backends::host::write_numbers(std::span(pixels->bytes)
                                                       .subspan(static_cast<size_t>(row * sample_bytes()),
                                                                static_cast<size_t>(sample_bytes())),
                                                   samples_.image(), inner, wide, out)
                   : samples_.read(images_.tensor, first_sample(moment) + ranges[0].begin + row, inner, wide,
                                   out);
}

}  // namespace boxcar::training
