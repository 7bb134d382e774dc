// One clean reduction over a signal, and three kernels that lose threads at a barrier.
#include "check.h"
#include "signal.h"

constexpr int kBlock = 256;

// Clean: every thread reaches every barrier, whatever n is.
__global__ void block_sum(const float *signal, float *sums, int n) {
  __shared__ float part[kBlock];
  int i = blockIdx.x * kBlock + threadIdx.x;
  part[threadIdx.x] = i < n ? signal[i] : 0.0f;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

// Planted: the barrier sits inside the branch that only some of the threads take.
__global__ void normalise(const float *signal, float *out) {
  __shared__ float part[kBlock];
  int i = blockIdx.x * kBlock + threadIdx.x;
  part[threadIdx.x] = fabsf(signal[i]);
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
      __syncthreads();
    }
  }
  __syncthreads();
  out[i] = signal[i] / part[0];
}

// Planted: threads past the end have left when the others wait for them.
__global__ void smooth(const float *signal, float *out, int n) {
  __shared__ float tile[kBlock];
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i >= n) return;
  tile[threadIdx.x] = signal[i];
  __syncthreads();
  float left = threadIdx.x > 0 ? tile[threadIdx.x - 1] : tile[threadIdx.x];
  out[i] = 0.5f * (left + tile[threadIdx.x]);
}

// Planted: a thread-dependent number of rounds, with a barrier in each.
__global__ void running_sum(const float *signal, float *out) {
  __shared__ float part[kBlock];
  part[threadIdx.x] = signal[threadIdx.x];
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i <= threadIdx.x; ++i) {
    sum += part[i];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

void reduce(const float *signal, float *sums, float *normalised, float *smoothed, float *running) {
  constexpr int blocks = (kSamples + kBlock - 1) / kBlock;
  block_sum<<<blocks, kBlock>>>(signal, sums, kSamples);
  CHECK(cudaGetLastError());
  normalise<<<kSamples / kBlock, kBlock>>>(signal, normalised);
  CHECK(cudaGetLastError());
  smooth<<<blocks, kBlock>>>(signal, smoothed, kSamples);
  CHECK(cudaGetLastError());
  running_sum<<<1, kBlock>>>(signal, running);
  CHECK(cudaGetLastError());
}
