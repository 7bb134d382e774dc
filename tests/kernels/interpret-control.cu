// Control flow with divergence, and barriers in it.

__global__ void loops(const int* in, int* out) {
  int t = threadIdx.x, sum = 0;
  for (int i = 0; i < 20; i++) {
    if (i == t % 7) continue;
    if (i > in[t]) break;
    int j = 0;
    do {
      sum += i;
      if (sum % 11 == 3) break;
    } while (++j < t % 3);
  }
  out[t] = sum;
}

__device__ int pick(int x) {
  switch (x % 5) {
    case 0: return 10;
    case 1: x += 3;
    case 2: x *= 2; break;
    case 3: {
      for (int i = 0; i < x; i++)
        if (i * i > x) return i;
    }
    default: x = -x;
  }
  return x;
}

__global__ void calls(const int* in, int* out) { out[threadIdx.x] = pick(in[threadIdx.x] + threadIdx.x); }

__global__ void barriers_in_uniform_loops(const int* in, int* out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = in[t];
  for (int i = 0; i < 3; i++) {
    __syncthreads();
    int v = s[(t + 1) % 64];
    __syncthreads();
    if (v % 2 == 0) v = -v;
    s[t] = v + 1;
  }
  __syncthreads();
  out[t] = s[63 - t];
}

__global__ void different_barriers(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();  // one
  } else {
    __syncthreads();  // other
  }
  out[threadIdx.x] = 1;
}

__global__ void early_exit(int* out, int n) {
  if (threadIdx.x >= n) return;
  __syncthreads();  // exited
  out[threadIdx.x] = __syncthreads_count(threadIdx.x % 2 == 0);
}

__global__ void loop_trip(int* out) {
  for (int i = 0; i < 1 + (int)threadIdx.x / 32; i++) __syncthreads();  // trip
  out[threadIdx.x] = 1;
}

__global__ void reducing_barriers(const int* in, int* out) {
  int all = __syncthreads_and(in[threadIdx.x] >= 0), any = __syncthreads_or(in[threadIdx.x] == 3);
  out[threadIdx.x] = all * 2 + (any != 0);
}

__global__ void half_warps(const int* in, int* out) {
  int t = threadIdx.x, v = in[t];
  if (t % 32 < 16) {
    v = __shfl_xor_sync(0x0000ffffu, v, 1);
  } else {
    v = __shfl_sync(0xffff0000u, v, 16);
  }
  out[t] = v;
}

__global__ void votes(const int* in, unsigned* out) {
  int t = threadIdx.x;
  unsigned b = __ballot_sync(0xffffffffu, in[t] > 7);
  unsigned m = __match_any_sync(0xffffffffu, in[t] % 3);
  out[t] = b + __popc(m) + __any_sync(0xffffffffu, in[t] == 0) + (__activemask() == 0xffffffffu);
}

__global__ void missing_lanes(const int* in, int* out) {
  int t = threadIdx.x, v = in[t];
  if (t < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);  // missing
  __syncthreads();
  out[t] = v;
}

__global__ void not_in_mask(const int* in, int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, in[threadIdx.x], 0);  // own
}

__global__ void waits_for_ever(int* flag, int* out) {
  while (atomicAdd(flag, 0) == 0) {  // spin
  }
  out[threadIdx.x] = 1;
}
