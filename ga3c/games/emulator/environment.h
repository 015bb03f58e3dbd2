// An environment of one game: actions in, observations, rewards, lives and the end out. It follows core.h.

struct Environment : Atari2600 {
    // What is asked of a game, by its place in the row of numbers that ``games.py`` makes.
    enum Fact { COMB, FIRST_LINE, PADDLE, SCORE_KIND, SCORE_BYTES, SCORE_0, SCORE_1, SCORE_2, SCORE_3, SCORE_UNIT,
                LIVES_BYTE, LIVES_MASK, LIVES_SHIFT, LIVES_MORE, LIVES_START, END_KIND, FACTS };
    enum { WIDTH = 160, HEIGHT = 210, SIDE = 84 };

    // What an environment keeps beside its game.
    struct Extra {
        i32 score, lives, paddle, last_action;
        u32 random, episode_frames;
        u8 over, pad[7];  // 32 bytes: batched.py knows where RAM follows
    };

    const i32* fact;
    Extra e;

    INLINE u32 draw_random() {  // xorshift
        u32 r = e.random;
        r ^= r << 13;
        r ^= r >> 17;
        r ^= r << 5;
        return e.random = r;
    }

    i32 score() {
        if (fact[SCORE_KIND] == 1) return (i32)s.ram[fact[SCORE_0]] - (i32)s.ram[fact[SCORE_1]];
        i32 total = 0;
        for (i32 k = 0; k < fact[SCORE_BYTES]; k++) {
            i32 v = s.ram[fact[SCORE_0 + k]];
            total = total * 100 + (v >> 4) * 10 + (v & 15);
        }
        return total * fact[SCORE_UNIT];
    }

    i32 lives() {
        if (fact[LIVES_BYTE] < 0) return 0;
        return ((s.ram[fact[LIVES_BYTE]] & fact[LIVES_MASK]) >> fact[LIVES_SHIFT]) + fact[LIVES_MORE];
    }

    bool ended() {
        if (fact[END_KIND] == 1) return s.ram[fact[SCORE_0]] == 21 || s.ram[fact[SCORE_1]] == 21;
        if (fact[END_KIND] == 2) return s.ram[fact[LIVES_BYTE]] == fact[LIVES_START];
        return e.lives == 0;
    }

    // The switches of an action of ALE's 18: bit 0 fire, 1 up, 2 right, 3 left, 4 down.
    static INLINE u32 switches(i32 action) {
        switch (action) {
            case 1: return 1; case 2: return 2; case 3: return 4; case 4: return 8; case 5: return 16;
            case 6: return 6; case 7: return 10; case 8: return 20; case 9: return 24; case 10: return 3;
            case 11: return 5; case 12: return 9; case 13: return 17; case 14: return 7; case 15: return 11;
            case 16: return 21; case 17: return 25; default: return 0;
        }
    }

    void hold(i32 action) {
        u32 w = switches(action);
        i32 paddle = fact[PADDLE];
        s.swcha = 0xFF;
        s.fire[0] = 0;
        if (!paddle) {
            s.swcha = (u8)(0xFF & ~((w & 2 ? 0x10 : 0) | (w & 16 ? 0x20 : 0) | (w & 8 ? 0x40 : 0) | (w & 4 ? 0x80 : 0)));
            s.fire[0] = w & 1;
            return;
        }
        if (w & 4) e.paddle -= 23000;
        if (w & 8) e.paddle += 23000;
        if (e.paddle < 27450) e.paddle = 27450;
        if (e.paddle > 790196) e.paddle = 790196;
        place_paddles();
        if (w & 1) s.swcha = paddle == 1 ? 0x7F : 0xBF;
    }

    // Two paddles of which the other one stands still; 0.01904 cycles of charge for each ohm.
    void place_paddles() {
        i32 mine = fact[PADDLE] == 1 ? 0 : 1;
        s.pot[mine] = (i32)((double)e.paddle * 0.01904);
        s.pot[1 - mine] = (i32)(408823 * 0.01904);
    }

    // One frame; what it earned.
    i32 play(i32 action) {
        hold(action);
        frame();
        e.episode_frames++;
        i32 now = score(), earned = now - e.score;
        e.score = now;
        e.lives = lives();
        e.over = ended();
        return earned;
    }

    void idle(i32 frames, u8 console) {
        for (i32 i = 0; i < frames; i++) {
            hold(0);
            s.swchb = console;
            frame();
        }
        s.swchb = 0x3F;
    }

    // The CPU begins at its vector and the timer with some number; RAM stays as it was.
    void restart(i32 timer) {
        u8 memory[128];
        for (i32 i = 0; i < 128; i++) memory[i] = s.ram[i];
        power_on();
        for (i32 i = 0; i < 128; i++) s.ram[i] = memory[i];
        s.timer_value = (u8)(timer + 1);
        s.timer_shift = 6;
        hold(0);
    }

    void wait_and_reset(const i32* boot, i32 steps) {
        idle(60, 0x3F);
        for (i32 i = 0; i < steps; i++) {
            i32 what = boot[2 * i], frames = boot[2 * i + 1];
            if (what > 0) idle(frames, (u8)what);
            for (i32 k = 0; what < 0 && k < frames; k++) {
                hold(-what);
                frame();
            }
        }
    }

    // What ALE does before the first episode: 60 frames to see what kind of ROM it is, a start, and a reset.
    void begin(const u8* memory, i32 timer, const i32* boot, i32 steps) {
        e.paddle = 408823;
        for (i32 i = 0; i < 128; i++) s.ram[i] = memory[i];
        restart(50);
        idle(60, 0x3F);
        restart(73);
        wait_and_reset(boot, steps);
        restart(timer);
        wait_and_reset(boot, steps);
        e.score = score();
        e.lives = lives();
        e.over = 0;
        e.episode_frames = 0;
        e.last_action = 0;
    }

    // The brighter of two screens, in gray, by area from 210 × 160 to 84 × 84. An output pixel is 2.5 rows and 40/21
    // columns: in halves of rows and in 21sts of columns all weights are whole numbers, and their sum is 200.
    static void shrink(const u8* first, const u8* second, const u8* gray, u8* out) {
        u16 rows[WIDTH];
        for (i32 y = 0; y < SIDE; y++) {
            i32 top = y * 5 / 2, half = y & 1;  // even: two rows and a half, odd: a half and two rows
            for (i32 x = 0; x < WIDTH; x++) {
                u32 sum = 0;
                for (i32 k = 0; k < 3; k++) {
                    i32 at = (top + k) * WIDTH + x;
                    u8 a = gray[first[at]], b = gray[second[at]];
                    sum += (u32)(a > b ? a : b) * (k == (half ? 0 : 2) ? 1u : 2u);
                }
                rows[x] = (u16)sum;
            }
            for (i32 x = 0; x < SIDE; x++) {
                i32 from = x * 40, to = from + 40;  // in 21sts of a column
                u32 sum = 0;
                for (i32 c = from / 21; c * 21 < to; c++) {
                    i32 low = c * 21 > from ? c * 21 : from, high = c * 21 + 21 < to ? c * 21 + 21 : to;
                    sum += (u32)rows[c] * (u32)(high - low);
                }
                u32 whole = sum / 200, rest = sum % 200;
                if (rest > 100 || (rest == 100 && (whole & 1))) whole++;
                out[y * SIDE + x] = (u8)whole;
            }
        }
    }
};
