// Barriers that some threads miss.

__global__ void consumers(const float *x, float *y) {
  __shared__ float s[128];
  int warp = threadIdx.x / 32;
  if (warp < 2) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();  // error: [sync.barrier-divergence]
    y[threadIdx.x] = s[63 - threadIdx.x];
  }
  __syncthreads();
}

__global__ void two_arms(float *x) {
  if (threadIdx.x % 2) {
    x[threadIdx.x] += 1.0f;
    __syncthreads();  // error: [sync.barrier-divergence]
  } else {
    __syncthreads();
    x[threadIdx.x] += 2.0f;
  }
}

__device__ float shifted(const float *s, int i) {
  float v = s[i];
  __syncthreads();  // error: [sync.barrier-divergence]
  return v + s[i + 1];
}

__global__ void through_a_call(const float *x, float *y, int n) {
  __shared__ float s[129];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = x[i];
  __syncthreads();
  if (i < n) y[i] = shifted(s, threadIdx.x);
  __syncthreads();
}

// Lanes of one warp part although the others end at once: bar.sync wants the whole warp.
__global__ void one_lane(float *y) {
  if (threadIdx.x == 0) {
    y[0] = 1.0f;
    __syncthreads();  // error: [sync.barrier-divergence]
  }
}

// Whole warps pass by and end: released, on NVIDIA devices.
__global__ void half(float *y) {
  __shared__ float s[32];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();  // warning: [sync.barrier-divergence]
    y[threadIdx.x] = s[31 - threadIdx.x];
  }
}

__device__ void settle(const int *flags, int i) {
  if (flags[i]) return;
  __syncthreads();  // error: [sync.barrier-divergence]
}

__global__ void early_return_of_a_callee(const int *flags, float *y) {
  settle(flags, threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = 0.0f;
}

__global__ void skipped_round(float *x, int n) {
  __shared__ float s[64];
  for (int k = 0; k < n; ++k) {
    if (x[threadIdx.x] > k) continue;
    __syncthreads();  // error: [sync.barrier-divergence]
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
  }
  __syncthreads();
}

__global__ void strided(const float *x, float *y, int n) {
  __shared__ float s[128];
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    s[threadIdx.x] = x[i];
    __syncthreads();  // error: [sync.barrier-loop-trip]
    y[i] = s[0];
    __syncthreads();
  }
  __syncthreads();
}

__global__ void own_length(const int *lengths, float *y) {
  __shared__ float s[64];
  float sum = 0.0f;
  int k = 0;
  do {
    s[threadIdx.x] = sum;
    __syncthreads();  // error: [sync.barrier-loop-trip]
    sum += s[(threadIdx.x + 1) % 64];
    ++k;
  } while (k < lengths[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = sum;
}

__global__ void first_hit(const int *x, int *y, int n) {
  __shared__ int s[64];
  int k = 0;
  while (k < n) {
    s[threadIdx.x] = x[k * 64 + threadIdx.x];
    __syncthreads();  // error: [sync.barrier-loop-trip]
    if (s[threadIdx.x] == 1) break;
    ++k;
  }
  __syncthreads();
  y[threadIdx.x] = k;
}

__global__ void leaves_early(const float *x, float *y, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;  // warning: [sync.barrier-early-exit]
  s[threadIdx.x] = x[i];
  __syncthreads();
  if (s[255 - threadIdx.x] < 0.0f) return;
  __syncthreads();
  y[i] = s[threadIdx.x ^ 1];
}

// The return comes later: it is the branch that keeps lanes from the first barrier.
__global__ void returns_afterwards(const int *x, float *y) {
  if (x[threadIdx.x] > 0) {
    y[threadIdx.x] = 1.0f;
    __syncthreads();  // error: [sync.barrier-divergence]
  }
  if (x[threadIdx.x] == 7) return;
  y[threadIdx.x] += 1.0f;
}

// One flag for each warp is shared by its lanes only.
__global__ void flag_of_a_warp(const int *x, int *y) {
  __shared__ int again[2];
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) again[warp] = x[warp];
  __syncthreads();
  while (again[warp] > 0) {
    __syncthreads();  // error: [sync.barrier-loop-trip]
    if (threadIdx.x % 32 == 0) again[warp]--;
    __syncthreads();
  }
  __syncthreads();
  y[threadIdx.x] = 0;
}

// A vote is the warp's, not the block's; it takes data that differs between warps to see it.
__global__ void vote_of_a_warp(const int *x, int *y) {
  if (__any_sync(0xffffffffu, x[threadIdx.x] > 0)) {
    y[threadIdx.x] = 1;
    __syncthreads();  // error: [sync.barrier-divergence]
  }
  __syncthreads();
  y[threadIdx.x] += 1;
}

__device__ bool settled(int *s) {
  __syncthreads();  // error: [sync.barrier-divergence]
  return s[0] > 0;
}

__global__ void short_circuit(const int *x, int *y) {
  __shared__ int s[1];
  s[0] = 1;
  if (x[threadIdx.x] > 0 && settled(s)) y[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x]++;
}

template <int N> struct Halves {
  __device__ static float sum(float *s, int t) {
    if (t >= N) return 0.0f;
    s[t] += s[t + N];
    __syncthreads();  // error: [sync.barrier-divergence]
    return Halves<N / 2>::sum(s, t);
  }
};
template <> struct Halves<0> {
  __device__ static float sum(float *s, int) { return s[0]; }
};

__global__ void recursive(float *x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float v = Halves<32>::sum(s, threadIdx.x);
  if (threadIdx.x == 0) x[0] = v;
}

void run(const int *f, int *g, float *x, float *y, int n) {
  consumers<<<4, 128>>>(x, y);
  two_arms<<<1, 64>>>(x);
  through_a_call<<<5, 128>>>(x, y, 600);
  one_lane<<<1, 64>>>(y);
  half<<<1, 64>>>(y);
  early_return_of_a_callee<<<n, 64>>>(f, y);
  skipped_round<<<1, 64>>>(x, 3);
  strided<<<1, 128>>>(x, y, n);
  own_length<<<1, 64>>>(f, y);
  first_hit<<<1, 64>>>(f, g, n);
  returns_afterwards<<<1, 64>>>(f, y);
  flag_of_a_warp<<<1, 64>>>(f, g);
  vote_of_a_warp<<<2, 64>>>(f, g);
  short_circuit<<<1, 64>>>(f, g);
  recursive<<<1, 64>>>(x);
  leaves_early<<<(n + 255) / 256, 256>>>(x, y, n);
}
