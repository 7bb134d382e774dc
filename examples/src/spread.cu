// Launches: one that fits, and three that the driver will refuse.
#include "check.h"
#include "signal.h"

// Clean.
__global__ void scale(float *out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] *= factor;
}

__global__ void copy_rows(const float *signal, float *out, int width) {
  int row = blockIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < width) out[row * width + column] = signal[column];
}

__global__ void stage_all(const float *signal, float *out) {
  extern __shared__ float stage[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) stage[i] = signal[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) out[i] = stage[16383 - i];
}

void spread(const float *signal, float *out, int channels) {
  scale<<<(kSamples + 255) / 256, 256>>>(out, 0.5f, kSamples);
  CHECK(cudaGetLastError());

  // Planted: 64 x 32 = 2048 threads in a block; the limit is 1024.
  dim3 block(64, 32);
  scale<<<(kSamples + 2047) / 2048, block>>>(out, 2.0f, kSamples);
  CHECK(cudaGetLastError());

  // Planted: a grid of 100000 blocks in y; the limit is 65535.
  copy_rows<<<dim3(1, kSamples), 256>>>(signal, out, 64);
  CHECK(cudaGetLastError());

  // Planted: 64 KiB of shared memory without the attribute that allows more than 48.
  stage_all<<<1, 512, 16384 * sizeof(float)>>>(signal, out);
  CHECK(cudaGetLastError());
}
