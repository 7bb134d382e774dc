// Numbers and thread counts of named barriers.

__device__ void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");  // error: [sync.named-barrier-id]
}

template <int Id>
__device__ void meet_all() {
  asm volatile("bar.sync %0;" ::"n"(Id) : "memory");
}

__global__ void right(float *y) {
  meet_all<15>();
  y[threadIdx.x] = 0.0f;
}

__global__ void by_warp_pair(float *y) {
  int id = 1 + threadIdx.x / 64;
  asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");
  y[threadIdx.x] = 0.0f;
}

__global__ void past_the_end(float *y, int base) {
  meet(base + 8, 64);
  y[threadIdx.x] = 0.0f;
}

__global__ void too_many_pairs(float *y) {
  int id = 1 + threadIdx.x / 64;
  asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");  // error: [sync.named-barrier-id]
  y[threadIdx.x] = 0.0f;
}

void run(float *y) {
  right<<<1, 64>>>(y);
  by_warp_pair<<<1, 512>>>(y);
  past_the_end<<<1, 64>>>(y, 9);
  too_many_pairs<<<1, 1024>>>(y);
}
