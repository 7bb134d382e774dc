#pragma once

// Not a multiple of the block size: the last block is partly past the end.
constexpr int kSamples = 100000;

void reduce(const float *signal, float *sums, float *normalised, float *smoothed, float *running);
void spread(const float *signal, float *out, int channels);
void warp_stage(const float *signal, float *out);
