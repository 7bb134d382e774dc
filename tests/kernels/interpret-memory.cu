// Accesses of every shape, right and wrong.

struct Pair {
  float a;
  int b;
};

union Word {
  float f;
  unsigned u;
  unsigned char bytes[4];
};

__global__ void structs(const Pair* in, Pair* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Pair p = in[i];
  p.a *= 2.0f;
  p.b += i;
  out[i] = p;
}

__global__ void unions(const float* in, unsigned* out) {
  Word w;
  w.f = in[threadIdx.x];
  out[threadIdx.x] = w.u + w.bytes[3];
}

__global__ void vectors(const float* in, float* out) {
  float4 v = reinterpret_cast<const float4*>(in)[threadIdx.x];
  float t = v.x;
  v.x = v.w;
  v.w = t;
  reinterpret_cast<float4*>(out)[threadIdx.x] = v;
}

__global__ void local_arrays(const int* in, int* out) {
  int window[8];
  for (int i = 0; i < 8; i++) window[i] = in[threadIdx.x + i];
  int* p = window + (threadIdx.x & 7);
  out[threadIdx.x] = *p + window[7 - (threadIdx.x & 7)];
}

__constant__ int factors[4] = {1, 10, 100, 1000};

__global__ void constants(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x] * factors[threadIdx.x % 4]; }

__global__ void out_of_bounds(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x + 8];  // oob
}

__global__ void before_start(int* out) {
  out[(int)threadIdx.x - 1] = 1;  // oob
}

__global__ void misaligned(float* out) {
  *reinterpret_cast<float2*>(out + threadIdx.x) = make_float2(1.0f, 2.0f);  // misaligned
}

__global__ void null_pointer(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x];  // null
}

__global__ void uninitialised(int* out) {
  __shared__ int s[64];
  if (threadIdx.x < 32) s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];  // uninitialised
}

__global__ void division(const int* in, int* out) {
  int d = in[threadIdx.x];
  out[threadIdx.x] = d ? 100 / d : -1;
}

__global__ void division_by_zero(const int* in, int* out) {
  out[threadIdx.x] = 100 / in[threadIdx.x];  // zero
}

__global__ void asserted(const int* in, int* out) {
  assert(in[threadIdx.x] < 5);  // assert
  out[threadIdx.x] = 1;
}

__global__ void dynamic_shared(const int* in, int* out, int n) {
  extern __shared__ int buffer[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) buffer[n - 1 - i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = buffer[i];
}
