// Masks of warp exchanges, right and wrong.

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

__global__ void whole_warps(const float *x, float *y) {
  float v = warp_sum(x[threadIdx.x]);
  if (threadIdx.x / 32 == 1) v = warp_sum(v);
  y[threadIdx.x] = v;
}

__global__ void present(const float *x, float *y, int n) {
  if (threadIdx.x < n) {
    unsigned m = __activemask();
    y[threadIdx.x] = __shfl_sync(m, x[threadIdx.x], 0);
  }
}

__global__ void balloted(const float *x, float *y, int n) {
  bool mine = threadIdx.x < n;
  unsigned m = __ballot_sync(0xffffffffu, mine);
  if (mine) y[threadIdx.x] = __shfl_xor_sync(m, x[threadIdx.x], 1);
}

__global__ void lower_half(const float *x, float *y) {
  if (threadIdx.x % 32 < 16) y[threadIdx.x] = __shfl_xor_sync(0xffff, x[threadIdx.x], 8);
}

__global__ void five_lanes(int *y) {
  y[threadIdx.x] = __shfl_sync(0x1f, threadIdx.x / 32, 0);  // error: [warp.shuffle-mask]
}

__global__ void no_lanes(int *y) {
  y[threadIdx.x] = __any_sync(0, y[threadIdx.x]);  // error: [warp.shuffle-mask]
}

__global__ void counted(int *y, int lanes) {
  unsigned m = (1u << lanes) - 1;
  y[threadIdx.x] = __ballot_sync(m, y[threadIdx.x]);  // error: [warp.shuffle-mask]
}

__global__ void guarded(float *y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = __shfl_down_sync(0xffffffffu, y[threadIdx.x], 1);  // error: [warp.shuffle-mask]
}

__global__ void strangers(float *y) {
  if (threadIdx.x % 32 < 8) y[threadIdx.x] = __shfl_xor_sync(0xffff, y[threadIdx.x], 1);  // error: [warp.shuffle-mask]
}

__global__ void after_return(float *y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  y[i] = __shfl_down_sync(0xffffffffu, y[i], 16);  // warning: [warp.shuffle-mask]
}

// 48 threads: the last warp is short, which is another rule's business.
__global__ void short_warp(float *y) { y[threadIdx.x] = __shfl_down_sync(0xffffffffu, y[threadIdx.x], 1); }

__global__ void groups_of_equals(const int *x, int *z) {
  unsigned m = __match_any_sync(0xffffffffu, x[threadIdx.x]);
  z[threadIdx.x] = __shfl_sync(m, x[threadIdx.x], __ffs(m) - 1);
}

__global__ void stale(const int *x, int *z, int n) {
  unsigned m = __activemask();
  if (x[threadIdx.x] > n) {
    z[threadIdx.x] = __shfl_sync(m, x[threadIdx.x], 0);  // error: [warp.shuffle-mask]
  }
}

__global__ void vote_within_a_vote(const int *x, int *z, int n) {
  bool p = x[threadIdx.x] > 0;
  if (blockIdx.x < n) {
    unsigned m = __ballot_sync(0xffffffffu, p);
    if (p) {
      int q = x[threadIdx.x + 64];
      unsigned inner = __ballot_sync(m, q);
      if (q) z[threadIdx.x] = __shfl_sync(inner, q, 0);
    }
  }
}

__global__ void other_vote(const int *x, int *z) {
  bool p = x[threadIdx.x] > 0;
  unsigned m = __ballot_sync(0xffffffffu, p);
  if (x[threadIdx.x] == 0) z[threadIdx.x] = __shfl_sync(m, 3, 0);  // error: [warp.shuffle-mask]
}

__global__ void quarters(int *z) {
  unsigned lane = threadIdx.x % 32, m = 0xffu << (lane & 24u);
  z[threadIdx.x] = __shfl_xor_sync(m, z[threadIdx.x], 4);
}

__global__ void eight_of_256(float *y) {
  if (threadIdx.x < 8) y[threadIdx.x] = __shfl_xor_sync(0xff, y[threadIdx.x], 4);
}

void run(const float *x, float *y, int *z, int n) {
  whole_warps<<<1, 128>>>(x, y);
  present<<<1, 64>>>(x, y, n);
  balloted<<<1, 64>>>(x, y, n);
  lower_half<<<1, 64>>>(x, y);
  five_lanes<<<n, 256>>>(z);
  no_lanes<<<1, 32>>>(z);
  counted<<<1, 64>>>(z, 8);
  guarded<<<1, 64>>>(y, n);
  strangers<<<1, 32>>>(y);
  after_return<<<(n + 127) / 128, 128>>>(y, n);
  short_warp<<<1, 48>>>(y);
  groups_of_equals<<<1, 64>>>(z, z);
  stale<<<1, 64>>>(z, z, n);
  vote_within_a_vote<<<n, 64>>>(z, z, n);
  other_vote<<<1, 64>>>(z, z);
  quarters<<<1, 64>>>(z);
  eight_of_256<<<1, 256>>>(y);
}
