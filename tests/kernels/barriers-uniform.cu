// Barriers that every thread of the block reaches: all proved, no finding.

template <int Tile>
__global__ void staged(const float *x, float *y, int n) {
  __shared__ float tile[Tile];
  for (int base = 0; base < n; base += Tile) {
    int i = base + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if constexpr (Tile > 64) {
      __syncthreads();
    }
    if (i < n) y[i] = tile[Tile - 1 - threadIdx.x];
    __syncthreads();
  }
}

// The block decides by a value one thread wrote and a barrier published.
__global__ void work_queue(int *next, int items, float *y) {
  __shared__ int item;
  while (true) {
    if (threadIdx.x == 0) item = atomicAdd(next, 1);
    __syncthreads();
    if (item >= items) break;
    y[item * blockDim.x + threadIdx.x] = 1.0f;
    __syncthreads();
  }
}

__global__ void bubble(int *x) {
  __shared__ int s[128];
  s[threadIdx.x] = x[threadIdx.x];
  int moved = 1;
  while (__syncthreads_or(moved)) {
    int left = s[(threadIdx.x + 127) % 128];
    __syncthreads();
    moved = left < s[threadIdx.x];
    if (moved) s[threadIdx.x] = left;
  }
  x[threadIdx.x] = s[threadIdx.x];
}

// Whole blocks leave; those that stay are complete.
__global__ void rows(const int *lengths, const float *x, float *y, int count) {
  __shared__ float s[128];
  int row = blockIdx.x;
  if (row >= count) return;
  if (lengths[row] == 0) return;
  s[threadIdx.x] = x[row * 128 + threadIdx.x];
  __syncthreads();
  y[row * 128 + threadIdx.x] = s[127 - threadIdx.x];
}

// A loop all leave together, half way round.
__global__ void scan(const float *x, float *y, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int d = 1;; d <<= 1) {
    float v = threadIdx.x >= d ? s[threadIdx.x - d] : 0.0f;
    __syncthreads();
    s[threadIdx.x] += v;
    if (2 * d >= blockDim.x) break;
    __syncthreads();
  }
  y[threadIdx.x] = s[threadIdx.x];
}

// A device function with an early return that the whole block takes, and a guard that never fails.
__device__ float first(const float *s, int mode) {
  if (mode == 0) return s[0];
  __syncthreads();
  return s[1];
}

__global__ void modes(const float *x, float *y, int mode) {
  __shared__ float s[64];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = first(s, mode);
}

// One half arrives through a named barrier of its own.
__global__ void specialised(const float *x, float *y) {
  __shared__ float s[128];
  if (threadIdx.x < 128) {
    s[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.sync 1, 128;" ::: "memory");
    y[threadIdx.x] = s[127 - threadIdx.x];
  }
}

// The grid is sized from n, and no thread is left over: 4 blocks of 128 for 512.
__global__ void exact(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = s[127 - threadIdx.x];
}

// Two barriers part the flag's writes from its reads.
__global__ void until_all_agree(const int *x, int *y, int n) {
  __shared__ int again;
  int i = threadIdx.x;
  do {
    __syncthreads();
    if (threadIdx.x == 0) again = 0;
    __syncthreads();
    if (i < n && x[i] > 3) again = 1;
    i += blockDim.x;
    __syncthreads();
  } while (again);
  y[threadIdx.x] = i;
}

__global__ void while_any(const int *x, int *y, int n) {
  int i = threadIdx.x, more = 1;
  while (__syncthreads_or(more)) {
    more = i < n && x[i] > 0;
    i += blockDim.x;
    __syncthreads();
  }
  y[threadIdx.x] = i;
}

// Warps in two roles meet at a numbered barrier, from different places.
__global__ void producers_and_consumers(float *x) {
  __shared__ float s[128];
  if (threadIdx.x >> 5 < 2) {
    s[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    x[threadIdx.x] = s[threadIdx.x - 64];
  }
  __syncthreads();
  x[threadIdx.x] += 1.0f;
}

struct Rounds {
  int count;
  int first[4];
  const float *data;
};
__constant__ int extra_rounds[8];

__global__ void bounds_in_structs(Rounds r, float *y, int k) {
  __shared__ float s[64];
  for (int i = r.first[k & 3]; i < r.count + extra_rounds[k & 7]; ++i) {
    s[threadIdx.x] = r.data[i];
    __syncthreads();
    y[i] += s[63 - threadIdx.x];
    __syncthreads();
  }
}

// The block is one row: threadIdx.y is 0.
__global__ void one_row(float *x) {
  __shared__ float s[64];
  if (threadIdx.y == 0) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
  }
}

__global__ void whole_blocks_leave(float *x, int n) {
  __shared__ float s[64];
  if (blockIdx.x * 64 >= n) return;
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}

void roles(int *q, int *i, float *x, float *y, Rounds r, int n) {
  until_all_agree<<<4, 64>>>(q, i, n);
  while_any<<<4, 64>>>(q, i, n);
  producers_and_consumers<<<2, 128>>>(x);
  bounds_in_structs<<<3, 64>>>(r, y, n);
  one_row<<<4, dim3(64, 1)>>>(x);
  whole_blocks_leave<<<n, 64>>>(x, n);
}

void run(int *q, const int *l, const float *x, float *y, int n) {
  staged<64><<<1, 64>>>(x, y, n);
  staged<128><<<1, 128>>>(x, y, n);
  work_queue<<<8, 128>>>(q, n, y);
  bubble<<<1, 128>>>(q);
  rows<<<64, 128>>>(l, x, y, n);
  scan<<<1, 256>>>(x, y, n);
  modes<<<1, 64>>>(x, y, n);
  specialised<<<n, 256>>>(x, y);
  exact<<<(512 + 127) / 128, 128>>>(x, y, 512);
}
