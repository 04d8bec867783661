// A number over the steps of a run, as a picture for a page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/train/series.h"

namespace act {

struct Chart {
  std::string title;
  std::string unit = {};           // after the numbers of the axis; may be empty
  const Series* series = nullptr;  // mean and extremes of each bucket
  bool smoothed = false;           // over the means, a line of their exponentially weighted average
  // A range of a factor of a hundred or more gets a logarithmic axis.
  bool may_be_logarithmic = false;
  // Values at steps, as points with a line between them (evaluations).
  std::vector<std::pair<uint64_t, double>> points = {};
  std::string points_name = {};
  // The least range of steps that the picture shows, so that pictures below each other have one axis.
  uint64_t first_step = 0, last_step = 0;
};

// A heading and the picture. Empty if there is nothing to show.
std::string ChartHtml(const Chart& chart);

// "0.25", "1.2e-05", "12k", "3.4M".
std::string ShortNumber(double value);

}  // namespace act
