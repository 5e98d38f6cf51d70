/* How far the latents of a linear beta-VAE turn on synthetic_linear: one run in a second, independent of TensorFlow.

   cc -O3 -ffast-math benchmarks/turning.c -o turning -lm
   ./turning MODEL BETA VARIANCE RATE BATCH STEPS FIRST_SEED SEEDS [WEIGHT]

   MODEL is vae, ae or full. Data, initial weights (Glorot), Adam and objective are those of vae_tf, random numbers are
   not. WEIGHT is that of the penalty `orthogonality`, 0 by default. It prints the DtO of every seed: 2 sqrt(2)
   sin(angle / 2), where the angle is that between the principal axes of D^T D and the latents, 0 to 45 degrees. Then it
   sums up the seeds, their DtO and their MCC. docs/defaults.md and docs/causes.md have what it measured. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 40000, MOST = 29 };
static float data[EXAMPLES][3];
static double R[3][3];                                          /* x = R[:, 0] v1 + R[:, 1] v2 */
static int order[EXAMPLES];

/* Random numbers: xoshiro256**, seeded by splitmix64; normal ones by Box and Muller. */
static uint64_t state[4];
static float spare;
static int has_spare;

static void seed(uint64_t s) {
    for (int i = 0; i < 4; i++) {
        uint64_t z = (s += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        state[i] = z ^ (z >> 31);
    }
    has_spare = 0;
}

static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static uint64_t bits(void) {
    uint64_t result = rotate(state[1] * 5, 7) * 9, t = state[1] << 17;
    state[2] ^= state[0], state[3] ^= state[1], state[1] ^= state[2], state[0] ^= state[3];
    state[2] ^= t, state[3] = rotate(state[3], 45);
    return result;
}

static float uniform(void) { return ((bits() >> 40) + 0.5f) / 16777216; }

static float normal(void) {
    if (has_spare) return has_spare = 0, spare;
    float r = sqrtf(-2 * logf(uniform())), t = 6.2831853f * uniform();
    return has_spare = 1, spare = r * sinf(t), r * cosf(t);
}

/* The unit square, one side twice as long, rotated by 45 degrees about (1, -1, 1) (Rodrigues). */
static void make_data(void) {
    double a = 1 / sqrt(3), K[3][3] = {{0, -a, -a}, {a, 0, -a}, {a, a, 0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double square = 0;
            for (int l = 0; l < 3; l++) square += K[i][l] * K[l][j];
            R[i][j] = (i == j) + sqrt(0.5) * K[i][j] + (1 - sqrt(0.5)) * square;
        }
    seed(12345);
    for (int n = 0; n < EXAMPLES; n++) {
        float v1 = 2 * uniform(), v2 = uniform();
        for (int i = 0; i < 3; i++) data[n][i] = R[i][0] * v1 + R[i][1] * v2;
        order[n] = n;
    }
}

/* Weights: encoder means W [2][3], b [2]; second head V [k][3], c [k]; decoder D [3][2], e [3]. */
static float w[MOST], g[MOST], first[MOST], second[MOST];
static int k, iW, ib, iV, ic, iD, ie, count;

static void add_gradient(const float *x, char model, float beta, float variance) {
    float mu[2], h[3], z[2], dz[2] = {0, 0}, dmu[2], dh[3] = {0, 0, 0}, eps[2] = {normal(), normal()};
    for (int j = 0; j < 2; j++) {
        mu[j] = w[ib + j];
        for (int i = 0; i < 3; i++) mu[j] += w[iW + 3 * j + i] * x[i];
    }
    for (int j = 0; j < k; j++) {
        h[j] = w[ic + j];
        for (int i = 0; i < 3; i++) h[j] += w[iV + 3 * j + i] * x[i];
    }
    float half = model == 'v' ? 0.5f : 1;                       /* log-variances, or log-diagonal of L */
    float s[2] = {expf(half * h[0]), expf(half * h[1])};
    for (int j = 0; j < 2; j++) z[j] = model == 'a' ? mu[j] : mu[j] + s[j] * eps[j];
    if (model == 'f') z[1] += h[2] * eps[0];
    for (int i = 0; i < 3; i++) {
        float r = (w[ie + i] + w[iD + 2 * i] * z[0] + w[iD + 2 * i + 1] * z[1] - x[i]) / variance;
        g[ie + i] += r;
        for (int j = 0; j < 2; j++) dz[j] += w[iD + 2 * i + j] * r, g[iD + 2 * i + j] += r * z[j];
    }
    for (int j = 0; j < 2; j++) {
        dmu[j] = dz[j] + (model == 'a' ? 0 : beta * mu[j]);
        if (model != 'a') dh[j] = half * (dz[j] * eps[j] * s[j] + beta * (s[j] * s[j] - 1));
    }
    if (model == 'f') dh[2] = dz[1] * eps[0] + beta * h[2];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 2; j++) g[iW + 3 * j + i] += dmu[j] * x[i];
        for (int j = 0; j < k; j++) g[iV + 3 * j + i] += dh[j] * x[i];
    }
    for (int j = 0; j < 2; j++) g[ib + j] += dmu[j];
    for (int j = 0; j < k; j++) g[ic + j] += dh[j];
}

/* Add the gradient of WEIGHT (log |p| + log |q| - 1/2 log det J^T J) = -WEIGHT / 2 log((1 + 1e-6)^2 - c^2), where p and q
   are the columns of J = D, and c is the cosine of their angle. */
static void add_penalty(double weight) {
    double pp = 0, pq = 0, qq = 0;
    for (int i = 0; i < 3; i++) {
        double p = w[iD + 2 * i], q = w[iD + 2 * i + 1];
        pp += p * p, pq += p * q, qq += q * q;
    }
    double lengths = sqrt(pp * qq), c = pq / lengths, slope = weight * c / (1 + 2e-6 + 1e-12 - c * c);
    for (int i = 0; i < 3; i++) {
        double p = w[iD + 2 * i], q = w[iD + 2 * i + 1];
        g[iD + 2 * i] += slope * (q / lengths - c * p / pp), g[iD + 2 * i + 1] += slope * (p / lengths - c * q / qq);
    }
}

/* Return the mean absolute correlation (MCC) of the means W x + b with the factors v1, v2, each with its own latent. */
static double measure_mcc(void) {
    double r[2][2];
    for (int j = 0; j < 2; j++) {
        double long_side = 0, short_side = 0;                   /* v1 has twice the standard deviation of v2 */
        for (int i = 0; i < 3; i++)
            long_side += 2 * w[iW + 3 * j + i] * R[i][0], short_side += w[iW + 3 * j + i] * R[i][1];
        double length = sqrt(long_side * long_side + short_side * short_side);
        r[j][0] = fabs(long_side) / length, r[j][1] = fabs(short_side) / length;
    }
    return fmax(r[0][0] + r[1][1], r[0][1] + r[1][0]) / 2;
}

static double train(char model, float beta, float variance, float rate, int batch, long steps, int run,
                    double weight) {
    k = model == 'f' ? 3 : 2;
    iW = 0, ib = 6, iV = 8, ic = iV + 3 * k, iD = ic + k, ie = iD + 6, count = ie + 3;
    seed(1000 + run);
    memset(w, 0, sizeof w), memset(first, 0, sizeof first), memset(second, 0, sizeof second);
    float glorot = sqrtf(6.f / 5), glorot_second = sqrtf(6.f / (3 + k));
    for (int i = 0; i < 6; i++) w[iW + i] = (2 * uniform() - 1) * glorot, w[iD + i] = (2 * uniform() - 1) * glorot;
    for (int i = 0; i < 3 * k; i++) w[iV + i] = (2 * uniform() - 1) * glorot_second;
    double decay1 = 1, decay2 = 1;
    for (long step = 0, next = EXAMPLES; step < steps; step++) {
        memset(g, 0, sizeof g);
        for (int n = 0; n < batch; n++) {
            if (next == EXAMPLES) {                             /* another epoch */
                for (int i = EXAMPLES - 1; i > 0; i--) {
                    int j = bits() % (i + 1), swapped = order[i];
                    order[i] = order[j], order[j] = swapped;
                }
                next = 0;
            }
            add_gradient(data[order[next++]], model, beta, variance);
        }
        if (weight) add_penalty(batch * weight);
        decay1 *= 0.9, decay2 *= 0.999;
        float size = rate * sqrt(1 - decay2) / (1 - decay1);
        for (int i = 0; i < count; i++) {
            float mean = g[i] / batch;
            first[i] += 0.1f * (mean - first[i]), second[i] += 0.001f * (mean * mean - second[i]);
            w[i] -= size * first[i] / (sqrtf(second[i]) + 1e-7f);
        }
    }
    double a = 0, b = 0, c = 0;
    for (int i = 0; i < 3; i++) {
        float left = w[iD + 2 * i], right = w[iD + 2 * i + 1];
        a += left * left, b += left * right, c += right * right;
    }
    double angle = fabs(atan2(2 * b, a - c) / 2);               /* 0 to 90 degrees */
    return 2 * sqrt(2) * sin((angle > M_PI / 4 ? M_PI / 2 - angle : angle) / 2);
}

int main(int argc, char **argv) {
    if (argc != 9 && argc != 10)
        return fprintf(stderr, "%s MODEL BETA VARIANCE RATE BATCH STEPS FIRST_SEED SEEDS [WEIGHT]\n", argv[0]), 2;
    int start = atoi(argv[7]), seeds = atoi(argv[8]), turned = 0, mixed = 0;
    double weight = argc == 10 ? atof(argv[9]) : 0, sum = 0, worst = 0, sum_mcc = 0, least = 1;
    make_data();
    for (int run = start; run < start + seeds; run++) {
        double dto = train(argv[1][0], atof(argv[2]), atof(argv[3]), atof(argv[4]), atoi(argv[5]), atol(argv[6]), run,
                           weight);
        double mcc = measure_mcc();
        printf("%.3f ", dto), fflush(stdout);
        sum += dto, worst = dto > worst ? dto : worst, turned += dto > 0.1;
        sum_mcc += mcc, least = mcc < least ? mcc : least, mixed += mcc < 0.99;
    }
    printf("\nDtO: mean %.3f, worst %.3f, above 0.1 in %d of %d\n", sum / seeds, worst, turned, seeds);
    printf("MCC: mean %.3f, least %.3f, below 0.99 in %d of %d\n", sum_mcc / seeds, least, mixed, seeds);
    return 0;
}
