// Layouts, signatures, index maps, placements, meshes and addresses: every parser on the same text.
#include "sbp/sbp.h"

#include "actors/address.h"
#include "harness.h"
#include "sbp/index_map.h"

namespace boxcar::fuzz {
namespace {

const auto text_of = [](const auto& value) { return sbp::to_text(value); };

// An address made of the first four numbers keeps them.
void address(const sbp::Shape& numbers) {
  if (numbers.size() < 4) return;
  int field[4];
  for (size_t i = 0; i < 4; ++i) field[i] = static_cast<int>(numbers[i]);
  const auto made = allowed([&] { return actors::Address::make(field[0], field[1], field[2], field[3]); });
  if (made && (made->node() != field[0] || made->thread() != field[1] || made->queue() != field[2] ||
               made->actor() != field[3]))
    throw Broken("another address: " + actors::to_text(*made));
}

// Whether a number has four digits. Placements are as long as announced: few inputs may have such numbers.
bool announces_many(std::string_view text) {
  int digits = 0;
  for (const char c : text)
    if (digits = c >= '0' && c <= '9' ? digits + 1 : 0; digits > 3) return true;
  return false;
}

}  // namespace

void fuzz_sbp(std::string_view input) {
  reads_back(input, sbp::parse_sbp, text_of);
  if (const auto layout = reads_back(input, sbp::parse_nd_sbp, text_of)) {
    const sbp::NdSbp canonical = sbp::canonical(*layout);
    if (sbp::canonical(canonical) != canonical) throw Broken("canonical twice: " + sbp::to_text(*layout));
    ends([&] { sbp::check_layout({4, 6}, *layout, sbp::Shape(layout->size(), 2)); });
  }
  reads_back(input, sbp::parse_signature, text_of);
  if (const auto map = reads_back(input, sbp::parse_index_map, text_of))
    for (const sbp::Signature& signature : sbp::derive(*map))
      reads_back(sbp::to_text(signature), sbp::parse_signature, text_of);
  if (!announces_many(input) || input.size() % 16 == 0) reads_back(input, sbp::parse_placement, text_of);
  if (const auto mesh = allowed([&] { return sbp::parse_mesh(input); })) address(*mesh);
}

}  // namespace boxcar::fuzz
