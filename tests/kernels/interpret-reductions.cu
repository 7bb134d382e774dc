// Reductions with known sums, and the same with one barrier taken away.

__global__ void tree_sum(const int* x, int* out) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void tree_sum_racy(const int* x, int* out) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];  // racy
  }
  __syncthreads();
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void shuffle_sum(const int* x, int* out) {
  __shared__ int warps[32];
  int t = threadIdx.x, v = x[blockIdx.x * blockDim.x + t];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  if (t % 32 == 0) warps[t / 32] = v;
  __syncthreads();
  if (t < 32) {
    v = t < (int)blockDim.x / 32 ? warps[t] : 0;
    v = __reduce_add_sync(0xffffffffu, v);
    if (t == 0) out[blockIdx.x] = v;
  }
}

__global__ void warp_tree_sum(const int* x, int* out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  s[t + 32] = 0;
  __syncwarp();
  for (int d = 16; d; d >>= 1) {
    int v = s[t + d];
    __syncwarp();
    s[t] += v;
    __syncwarp();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void warp_tree_sum_racy(const int* x, int* out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  s[t + 32] = 0;
  __syncwarp();
  for (int d = 16; d; d >>= 1) {
    int v = s[t + d];  // racy
    s[t] += v;         // racy
    __syncwarp();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void atomic_sum(const int* x, int* out) {
  atomicAdd(out + blockIdx.x, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

__device__ int last_ticket;

__global__ void last_block_sum(const int* x, int* out, int* partial) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int v = 0;
    for (int i = 0; i < (int)blockDim.x; i++) v += x[blockIdx.x * blockDim.x + i];
    partial[blockIdx.x] = v;
    __threadfence();
    last = atomicAdd(&last_ticket, 1) == (int)gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) out[threadIdx.x] = partial[threadIdx.x];
}

__global__ void spin_lock_sum(const int* x, int* out, int* lock) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      out[blockIdx.x] += x[blockIdx.x * blockDim.x + threadIdx.x];
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

__global__ void queue_sum(const int* x, int* out, int* ticket) {
  while (atomicAdd(ticket, 0) != (int)(blockIdx.x * blockDim.x + threadIdx.x)) {
  }
  out[blockIdx.x] += x[blockIdx.x * blockDim.x + threadIdx.x];
  __threadfence();
  atomicAdd(ticket, 1);
}
