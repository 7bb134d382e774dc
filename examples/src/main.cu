#include "check.h"
#include "signal.h"

// Clean.
__global__ void fill(float *signal, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) signal[i] = static_cast<float>(i % 97);
}

int main() {
  float *signal, *out;
  CHECK(cudaMalloc(&signal, kSamples * sizeof(float)));
  CHECK(cudaMalloc(&out, 4 * kSamples * sizeof(float)));

  fill<<<(kSamples + 255) / 256, 256>>>(signal, kSamples);
  CHECK(cudaGetLastError());

  reduce(signal, out, out + kSamples, out + 2 * kSamples, out + 3 * kSamples);
  warp_stage(signal, out);
  spread(signal, out, 4);
  CHECK(cudaDeviceSynchronize());

  // Planted: the last launch of the program, and nobody asks whether it worked.
  fill<<<(kSamples + 255) / 256, 256>>>(out, kSamples);
  cudaDeviceSynchronize();
  cudaFree(signal);
  cudaFree(out);
  return 0;
}
