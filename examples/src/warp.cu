// Warp shuffles and named barriers.
#include "check.h"
#include "signal.h"

// Clean: all 32 lanes take part, and the mask says so.
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  return value;
}

__global__ void warp_sums(const float *signal, float *sums) {
  float sum = warp_sum(signal[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x % 32 == 0) sums[blockIdx.x * 4 + threadIdx.x / 32] = sum;
}

// Planted: sixteen lanes are named, thirty-two take part.
__global__ void broadcast_first(const float *signal, float *out) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = signal[i] - __shfl_sync(0x0000ffff, signal[i], 0);
}

// Planted: hardware has barriers 0 to 15, and the second half of the block waits at 16.
__global__ void two_halves(const float *signal, float *out) {
  __shared__ float tile[128];
  unsigned half = threadIdx.x / 64;
  tile[threadIdx.x] = signal[threadIdx.x];
  asm volatile("bar.sync %0, 64;" ::"r"(15 + half) : "memory");
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

void warp_stage(const float *signal, float *out) {
  warp_sums<<<64, 128>>>(signal, out);
  CHECK(cudaGetLastError());
  broadcast_first<<<64, 128>>>(signal, out);
  CHECK(cudaGetLastError());
  two_halves<<<1, 128>>>(signal, out);
  CHECK(cudaGetLastError());
}
