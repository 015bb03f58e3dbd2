// An Atari 2600, as one plain struct: a 6507, a RIOT, a TIA and the banks of a cartridge.
//
// There is no include, no template, no data member that is static and no pointer to a function: the text is a valid
// body of a *local* struct, so that it compiles with any C++ compiler and inside Warp's native snippets alike.
// Time is counted in CPU cycles since the frame began; the TIA's clock is three times that. Facts that no manual has
// stand in docs/emulator-facts.md with the experiment that found them.
//
// BANKS chooses at compile time how a cartridge is addressed: 0 flat (2K, 4K), 1 F8 and F6 with or without
// superchip RAM, 2 E0, 3 FE.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#ifndef BANKS
#define BANKS 0
#endif
#ifdef __CUDACC__
#define INLINE __forceinline__
#define OUTLINE __noinline__
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#else
#define INLINE inline __attribute__((always_inline))
#define OUTLINE __attribute__((noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#endif

struct Atari2600 {
    // What a game is: what ``state()`` copies. Nothing else outlives a frame.
    struct State {
        u8 ram[128], extra[128];  // RIOT, superchip
        i32 cycle;                // since the frame began
        i32 timer_set;            // cycle in which the timer was written
        i32 timer_offset;
        i32 pots_free;            // cycle in which the pots began to charge
        i32 vsync_since;          // cycle in which VSYNC was set
        i32 pot[4];               // cycles until each pot reads as charged; <0 never
        u32 frames;
        i32 drawn;                // TIA clock up to which collisions and picture are done
        u16 pc, bank[4];
        u8 a, x, y, sp, flags;    // flags as PHP pushes them
        u8 timer_value, timer_shift, timer_read;
        u8 swcha, swchb, swacnt, swbcnt, outa, outb;
        u8 fire[2], latch[2];
        u8 vsync, vblank, ctrlpf, pf[3], grp[2], old_grp[2], refp[2], nusiz[2], vdel[3];
        u8 colour[4];             // player 0, player 1, playfield, background
        u8 enable[3], old_ball;   // missile 0, missile 1, ball
        u8 locked[2];             // RESMP
        u8 motion[5], pos[5];     // player 0, player 1, missile 0, missile 1, ball
        u8 late[2];               // the first copy of a player is not drawn in this line
        u8 comb;                  // HMOVE blanks the first eight pixels of this line
        u8 jammed, reflect;
        u16 collisions;
    };

    struct Mask { u64 w[3]; };  // 160 pixels, the first is bit 0

    State s;
    const u8* rom;
    u32 rom_size;
    u8 use_comb;
    u8 superchip;
    u8* screen;  // 160 × height palette indices, or null where nobody looks
    i32 first_line, height;
    i32 limit;
    u8 ended;
    u32 dirty;  // objects whose mask is older than its registers: bit per object, PF is bit 5
    u8 settled; // nothing changed since a whole line was compared for collisions
    Mask mask[6];  // player 0, player 1, missile 0, missile 1, ball, playfield

    // ---------------------------------------------------------------- TIA: masks

    static INLINE u32 reversed(u32 b) {
        return (u32)((((b * 0x80200802ULL) & 0x0884422110ULL) * 0x0101010101ULL) >> 32) & 0xFF;
    }

    static INLINE u32 spread4(u32 b) {  // each of 8 bits four times
        u32 x = (b | b << 12) & 0x000F000F;
        x = (x | x << 6) & 0x03030303;
        x = (x | x << 3) & 0x11111111;
        return x * 15;
    }

    static INLINE u32 spread2(u32 b) {
        u32 x = (b | b << 4) & 0x0F0F;
        x = (x | x << 2) & 0x3333;
        x = (x | x << 1) & 0x5555;
        return x * 3;
    }

    static INLINE void put(Mask& m, u32 pattern, i32 at) {  // round the end of the line
        if (at >= 160) at -= 160;
        i32 word = at >> 6, shift = at & 63;
        u64 low = (u64)pattern << shift, high = shift > 32 ? (u64)pattern >> (64 - shift) : 0;
        if (word == 0) { m.w[0] |= low; m.w[1] |= high; }
        else if (word == 1) { m.w[1] |= low; m.w[2] |= high; }
        else { m.w[2] |= low & 0xFFFFFFFFULL; m.w[0] |= low >> 32 | high << 32; }
    }

    // Copies beside the first by the low bits of NUSIZ: bit 1 is 16 pixels off, bit 2 is 32, bit 3 is 64.
    static INLINE u32 copies(u32 nusiz) { return (0x0C086420u >> ((nusiz & 7) * 4)) & 15; }

    void put_copies(Mask& m, u32 pattern, i32 at, u32 nusiz, u32 late) {
        u32 n = nusiz & 7;
        if (!(late & 1)) put(m, pattern, at);
        if (n == 1 || n == 3) put(m, pattern, at + 16);
        if (n == 2 || n == 3 || n == 6) put(m, pattern, at + 32);
        if (n == 4 || n == 6) put(m, pattern, at + 64);
    }

    OUTLINE void build_player(i32 i) {
        Mask& m = mask[i];
        m.w[0] = m.w[1] = m.w[2] = 0;
        u32 g = s.vdel[i] ? s.old_grp[i] : s.grp[i];
        if (!g) return;
        u32 n = s.nusiz[i] & 7;
        if (!s.refp[i]) g = reversed(g);
        if (n == 5) { if (!(s.late[i] & 1)) put(m, spread2(g), s.pos[i] + 1); }
        else if (n == 7) { if (!(s.late[i] & 1)) put(m, spread4(g), s.pos[i] + 1); }
        else put_copies(m, g, s.pos[i], n, s.late[i]);
    }

    OUTLINE void build_missile(i32 i) {
        Mask& m = mask[2 + i];
        m.w[0] = m.w[1] = m.w[2] = 0;
        if (!s.enable[i] || s.locked[i]) return;
        u32 width = 1u << ((s.nusiz[i] >> 4) & 3);
        put_copies(m, (1u << width) - 1, s.pos[2 + i], s.nusiz[i], 0);
    }

    OUTLINE void build_ball() {
        Mask& m = mask[4];
        m.w[0] = m.w[1] = m.w[2] = 0;
        if (!(s.vdel[2] ? s.old_ball : s.enable[2])) return;
        u32 width = 1u << ((s.ctrlpf >> 4) & 3);
        put(m, (1u << width) - 1, s.pos[4]);
    }

    OUTLINE void build_playfield() {
        Mask& m = mask[5];
        u64 a = spread4(s.pf[0] >> 4) & 0xFFFF, b = spread4(reversed(s.pf[1])), c = spread4(s.pf[2]);
        u64 low = a | b << 16 | c << 48, high = c >> 16;  // 80 pixels
        m.w[0] = low;
        if (s.reflect) {
            u64 ra = spread4(reversed(s.pf[0] >> 4)) >> 16, rb = spread4(s.pf[1]), rc = spread4(reversed(s.pf[2]));
            m.w[1] = high | rc << 16 | rb << 48;
            m.w[2] = rb >> 16 | ra << 16;
        } else {
            m.w[1] = high | low << 16;
            m.w[2] = low >> 48 | high << 16;
        }
    }

    INLINE void build() {
        if (dirty & 1) build_player(0);
        if (dirty & 2) build_player(1);
        if (dirty & 4) build_missile(0);
        if (dirty & 8) build_missile(1);
        if (dirty & 16) build_ball();
        if (dirty & 32) build_playfield();
        dirty = 0;
    }

    // ---------------------------------------------------------------- TIA: spans

    static INLINE u64 word_range(i32 from, i32 to, i32 word) {  // pixels [from, to) that lie in a word
        i32 a = from - word * 64, b = to - word * 64;
        if (b <= 0 || a >= 64) return 0;
        u64 m = ~0ULL;
        if (a > 0) m &= ~0ULL << a;
        if (b < 64) m &= ~(~0ULL << b);
        return m;
    }

    // Bits of ``collisions``, pair by pair in the order of the registers CXM0P ... CXPPMM, the high bit first.
    INLINE void collide(i32 from, i32 to) {
        u32 found = 0;
        for (i32 k = 0; k < 3; k++) {
            u64 r = word_range(from, to, k);
            if (!r) continue;
            u64 p0 = mask[0].w[k] & r, p1 = mask[1].w[k] & r, m0 = mask[2].w[k] & r, m1 = mask[3].w[k] & r;
            u64 bl = mask[4].w[k] & r, pf = mask[5].w[k] & r;
            u64 any = p0 | p1 | m0 | m1 | bl;
            if (!any) continue;
            if (m0) found |= (u32)((m0 & p1) != 0) | (u32)((m0 & p0) != 0) << 1 | (u32)((m0 & pf) != 0) << 8 | (u32)((m0 & bl) != 0) << 9;
            if (m1) found |= (u32)((m1 & p0) != 0) << 2 | (u32)((m1 & p1) != 0) << 3 | (u32)((m1 & pf) != 0) << 10 | (u32)((m1 & bl) != 0) << 11;
            if (p0) found |= (u32)((p0 & pf) != 0) << 4 | (u32)((p0 & bl) != 0) << 5 | (u32)((p0 & p1) != 0) << 14;
            if (p1) found |= (u32)((p1 & pf) != 0) << 6 | (u32)((p1 & bl) != 0) << 7;
            found |= (u32)((bl & pf) != 0) << 12 | (u32)((m0 & m1) != 0) << 15;
        }
        s.collisions |= (u16)found;
    }

    static INLINE void paint(u8* row, u64 bits, u8 colour) {  // runs of set bits
        while (bits) {
            i32 from = __builtin_ctzll(bits);
            u64 rest = ~(bits >> from);
            i32 n = rest ? __builtin_ctzll(rest) : 64;
            for (i32 i = 0; i < n; i++) row[from + i] = colour;
            if (from + n >= 64) break;
            bits &= ~0ULL << (from + n);
        }
    }

    OUTLINE void draw(i32 line, i32 from, i32 to) {
        u8* row = screen + (line - first_line) * 160;
        if (s.vblank & 2) {
            for (i32 x = from; x < to; x++) row[x] = 0;
            return;
        }
        for (i32 x = from; x < to; x++) row[x] = s.colour[3];
        for (i32 k = 0; k < 3; k++) {
            u64 r = word_range(from, to, k);
            if (!r) continue;
            u8* at = row + 64 * k;
            u64 p0 = (mask[0].w[k] | mask[2].w[k]) & r, p1 = (mask[1].w[k] | mask[3].w[k]) & r;
            u64 bl = mask[4].w[k] & r, pf = mask[5].w[k] & r;
            if (s.ctrlpf & 4) {
                paint(at, p1, s.colour[1]);
                paint(at, p0, s.colour[0]);
                paint(at, pf | bl, s.colour[2]);
            } else {
                if (s.ctrlpf & 2) {  // each half of the playfield is one with its player
                    u64 left = word_range(0, 80, k);
                    paint(at, bl, s.colour[2]);
                    p0 |= pf & left;
                    p1 |= pf & ~left;
                } else
                    paint(at, pf | bl, s.colour[2]);
                paint(at, p1, s.colour[1]);
                paint(at, p0, s.colour[0]);
            }
        }
        if (s.comb && from < 8)
            for (i32 x = from; x < 8 && x < to; x++) row[x] = 0;
    }

    INLINE void span(i32 line, i32 from, i32 to) {
        if (dirty) build();
        if (!(s.vblank & 2)) collide(from, to);
        if (screen && line >= first_line && line < first_line + height) draw(line, from, to);
    }

    void end_line(i32 line) {
        if (line >= first_line) s.comb = 0;
        if (s.reflect != (s.ctrlpf & 1)) {
            s.reflect = s.ctrlpf & 1;
            dirty |= 32;
        }
        for (i32 i = 0; i < 2; i++)
            if (s.late[i]) { s.late[i] = 0; dirty |= 1u << i; }
    }

    // Draw and compare up to this clock. All that changes the picture calls it before.
    OUTLINE void sync(i32 clock) {
        while (s.drawn < clock) {
            i32 line = s.drawn / 228, x0 = s.drawn - line * 228;
            i32 end = line * 228 + 228;
            if (end > clock) end = clock;
            i32 x1 = end - line * 228;
            if (x1 > 68) span(line, x0 > 68 ? x0 - 68 : 0, x1 - 68);
            s.drawn = end;
            if (x1 == 228) end_line(line);
        }
    }

    // ---------------------------------------------------------------- TIA: registers

    static INLINE i32 playfield_delay(i32 hpos) {
        // by phase of the write within the four pixels of a playfield bit
        i32 phase = (hpos / 3) & 3;
        return phase == 0 ? 4 : phase == 1 ? 5 : phase == 2 ? 2 : 3;
    }

    // RESPx: a copy that is being drawn is drawn on for 11 clocks; the first copy of the new place is drawn in this line
    // only where it is one that was about to begin.
    void place_player(i32 i, i32 clock) {
        i32 hpos = clock % 228;
        i32 at = hpos < 68 ? 3 : (hpos - 63) % 160;
        u32 n = s.nusiz[i] & 7;
        i32 width = n == 5 ? 16 : n == 7 ? 32 : 8, drawn_on = 0, begins = 0;
        u32 c = 1 | copies(n);
        for (i32 k = 0; k < 4; k++)
            if (c >> k & 1) {
                i32 beyond = at - s.pos[i] - (k == 3 ? 64 : 16 * k);
                if (beyond < 0) beyond += 160;
                if (beyond < 0) beyond += 160;
                if (beyond < 4) begins = 1;
                else if (beyond < width + 4) drawn_on = 1;
            }
        sync(clock + (drawn_on ? 11 : 0));
        s.pos[i] = (u8)at;
        s.late[i] = !begins || drawn_on;
        dirty |= 1u << i;
    }

    void place_missile(i32 i, i32 clock) {
        i32 hpos = clock % 228;
        sync(clock + 8);
        s.pos[2 + i] = (u8)(hpos < 68 ? 2 : (hpos - 64) % 160);
        dirty |= 4u << i;
    }

    void place_ball(i32 clock) {
        i32 hpos = clock % 228;
        sync(clock);
        s.pos[4] = (u8)(hpos < 68 ? 2 : (hpos - 64) % 160);
        dirty |= 16;
    }

    // HMOVE gives each object up to 15 extra clocks, one every four, of which only those in the blank count. Begun in
    // time it also makes the blank eight pixels longer: that is the comb.
    void hmove(i32 clock) {
        i32 cycle = clock / 3 % 76;
        if (cycle > 20 && cycle < 55) return;
        i32 early = cycle <= 20 || cycle == 75;
        if (cycle == 75) sync(clock + 3);  // it is the next line that is moved and combed
        else sync(clock);
        if (early && use_comb) s.comb = 1;
        i32 most = cycle <= 20 ? (70 - 3 * cycle) >> 2 : 15;
        i32 lost = cycle <= 20 || cycle >= 74 ? 0 : (3 * (73 - cycle) + 3) >> 2;
        for (i32 i = 0; i < 5; i++) {
            i32 extra = (s.motion[i] >> 4) ^ 8;
            if (extra > most) extra = most;
            extra -= lost;
            if (extra < 0) extra = 0;
            i32 p = s.pos[i] + (early ? 8 : 0) - extra;
            if (p < 0) p += 160;
            if (p >= 160) p -= 160;
            if (p == s.pos[i]) continue;
            s.pos[i] = (u8)p;
            if (i < 2) s.late[i] = 0;
            dirty |= 1u << i;
        }
    }

    void unlock(i32 i, u8 v) {
        if (s.locked[i] && !(v & 2)) {
            u32 n = s.nusiz[i] & 7;
            s.pos[2 + i] = (u8)((s.pos[i] + (n == 5 ? 8 : n == 7 ? 16 : 4)) % 160);
        }
        s.locked[i] = v & 2;
        dirty |= 4u << i;
    }

#define CHANGE(field, value, delay, objects) \
    if ((field) != (u8)(value)) { sync(clock + (delay)); (field) = (u8)(value); dirty |= (objects); }

    void end_frame() { limit = 0; ended = 1; }

    OUTLINE void tia_write(u32 address, u8 v, i32 clock) {
        if (UNLIKELY(clock >= 343 * 228)) end_frame();
        switch (address & 0x3F) {
            case 0x00:
                if (v & 2) { if (!(s.vsync & 2)) s.vsync_since = clock; }
                else if ((s.vsync & 2) && clock - s.vsync_since >= 228) end_frame();
                s.vsync = v;
                break;
            case 0x01:
                if ((s.vblank ^ v) & 2) sync(clock + 1);
                if (!(s.vblank & 0x80) && (v & 0x80)) s.pots_free = 0x7FFFFFFF;
                if ((s.vblank & 0x80) && !(v & 0x80)) s.pots_free = clock / 3;
                if (!(v & 0x40)) s.latch[0] = s.latch[1] = 0x80;
                s.vblank = v;
                break;
            case 0x02: {
                i32 c = clock / 3, left = c % 76;
                if (left) s.cycle = c + 76 - left;
                break;
            }
            case 0x03: break;
            case 0x04: CHANGE(s.nusiz[0], v, 8, 5) break;
            case 0x05: CHANGE(s.nusiz[1], v, 8, 10) break;
            case 0x06: if (s.colour[0] != (v & 0xFE)) { if (screen) sync(clock); s.colour[0] = v & 0xFE; } break;
            case 0x07: if (s.colour[1] != (v & 0xFE)) { if (screen) sync(clock); s.colour[1] = v & 0xFE; } break;
            case 0x08: if (s.colour[2] != (v & 0xFE)) { if (screen) sync(clock); s.colour[2] = v & 0xFE; } break;
            case 0x09: if (s.colour[3] != (v & 0xFE)) { if (screen) sync(clock); s.colour[3] = v & 0xFE; } break;
            case 0x0A:
                CHANGE(s.ctrlpf, v, 0, 16)
                // The right half is reflected or not as it was when it began.
                if (clock % 228 < 147 && s.reflect != (v & 1)) {
                    s.reflect = v & 1;
                    dirty |= 32;
                }
                break;
            case 0x0B: CHANGE(s.refp[0], v & 8, 0, 1) break;
            case 0x0C: CHANGE(s.refp[1], v & 8, 0, 2) break;
            case 0x0D: CHANGE(s.pf[0], v & 0xF0, playfield_delay(clock % 228), 32) break;
            case 0x0E: CHANGE(s.pf[1], v, playfield_delay(clock % 228), 32) break;
            case 0x0F: CHANGE(s.pf[2], v, playfield_delay(clock % 228), 32) break;
            case 0x10: place_player(0, clock); break;
            case 0x11: place_player(1, clock); break;
            case 0x12: place_missile(0, clock); break;
            case 0x13: place_missile(1, clock); break;
            case 0x14: place_ball(clock); break;
            case 0x1B:
                if (s.vdel[0] ? 0 : s.grp[0] != v) { sync(clock + 1); dirty |= 1; }
                if (s.old_grp[1] != s.grp[1]) {
                    if (s.vdel[1]) { sync(clock + 1); dirty |= 2; }
                    s.old_grp[1] = s.grp[1];
                }
                s.grp[0] = v;
                break;
            case 0x1C:
                if (s.vdel[1] ? 0 : s.grp[1] != v) { sync(clock + 1); dirty |= 2; }
                if (s.old_grp[0] != s.grp[0]) {
                    if (s.vdel[0]) { sync(clock + 1); dirty |= 1; }
                    s.old_grp[0] = s.grp[0];
                }
                if (s.old_ball != s.enable[2]) {
                    if (s.vdel[2]) { sync(clock + 1); dirty |= 16; }
                    s.old_ball = s.enable[2];
                }
                s.grp[1] = v;
                break;
            case 0x1D: CHANGE(s.enable[0], v & 2, 0, 4) break;
            case 0x1E: CHANGE(s.enable[1], v & 2, 0, 8) break;
            case 0x1F: CHANGE(s.enable[2], v & 2, 0, 16) break;
            case 0x20: s.motion[0] = v & 0xF0; break;
            case 0x21: s.motion[1] = v & 0xF0; break;
            case 0x22: s.motion[2] = v & 0xF0; break;
            case 0x23: s.motion[3] = v & 0xF0; break;
            case 0x24: s.motion[4] = v & 0xF0; break;
            case 0x25: CHANGE(s.vdel[0], v & 1, 0, 1) break;
            case 0x26: CHANGE(s.vdel[1], v & 1, 0, 2) break;
            case 0x27: CHANGE(s.vdel[2], v & 1, 0, 16) break;
            case 0x28: if (s.locked[0] != (v & 2)) { sync(clock); unlock(0, v); } break;
            case 0x29: if (s.locked[1] != (v & 2)) { sync(clock); unlock(1, v); } break;
            case 0x2A: hmove(clock); break;
            case 0x2B: s.motion[0] = s.motion[1] = s.motion[2] = s.motion[3] = s.motion[4] = 0; break;
            case 0x2C: sync(clock); s.collisions = 0; break;
            default: break;
        }
    }

    OUTLINE u8 tia_read(u32 address, i32 clock, u8 bus) {
        address &= 15;
        u8 low = bus & 0x3F;
        if (address < 8) {
            sync(clock);
            u32 c = s.collisions >> (address * 2);
            return (u8)((c & 1) << 7 | (c & 2) << 5 | low);
        }
        if (address < 12) {
            i32 pot = s.pot[address - 8];
            if (s.vblank & 0x80) return low;
            if (pot >= 0 && clock / 3 - s.pots_free <= pot) return low;
            return 0x80 | low;
        }
        if (address < 14) {
            u8 up = s.fire[address - 12] ? 0 : 0x80;
            if (s.vblank & 0x40) { s.latch[address - 12] &= up; up = s.latch[address - 12]; }
            return up | low;
        }
        return low;
    }

    // ---------------------------------------------------------------- RIOT

    OUTLINE u8 riot_read(u32 address) {
        if (!(address & 4)) {
            switch (address & 3) {
                case 0: return (s.outa & s.swacnt) | (s.swcha & ~s.swacnt);
                case 1: return s.swacnt;
                case 2: return (s.outb & s.swbcnt) | (s.swchb & ~s.swbcnt);
                default: return s.swbcnt;
            }
        }
        i32 passed = s.cycle - 1 - s.timer_set;
        i32 left = s.timer_value - (passed >> s.timer_shift) - 1;
        if (address & 1) return left >= 0 || s.timer_read ? 0 : 0x80;
        if (left >= 0) return (u8)left;
        // Past zero the timer counts cycles until it is read, and then its intervals again.
        i32 beyond = passed + 1 - (s.timer_value << s.timer_shift);
        if (!s.timer_read && beyond >= 2) {
            s.timer_read = 1;
            s.timer_offset = beyond;
        }
        if (s.timer_read) return (u8)(s.timer_value - (passed >> s.timer_shift) - s.timer_offset);
        return (u8)-beyond;
    }

    OUTLINE void riot_write(u32 address, u8 v) {
        if (!(address & 4)) {
            switch (address & 3) {
                case 0: s.outa = v; break;
                case 1: s.swacnt = v; break;
                case 2: s.outb = v; break;
                default: s.swbcnt = v; break;
            }
        } else if (address & 0x10) {
            s.timer_value = v;
            s.timer_shift = (address & 3) == 0 ? 0 : (address & 3) == 1 ? 3 : (address & 3) == 2 ? 6 : 10;
            s.timer_set = s.cycle;
            s.timer_read = 0;
        }
    }

    // ---------------------------------------------------------------- cartridge

#if BANKS == 0
#define CODE(p) rom[(p) & 0xFFF]
#elif BANKS == 1
#define CODE(p) rom[((p) & 0xFFF) + s.bank[0] * 4096]
#elif BANKS == 2
#define CODE(p) rom[s.bank[((p) >> 10) & 3] * 1024 + ((p) & 0x3FF)]
#else
#define CODE(p) rom[((p) & 0xFFF) | ((p) & 0x2000 ? 0 : 0x1000)]
#endif

    INLINE void hotspot(u32 address) {
        u32 a = address & 0xFFF;
#if BANKS == 1
        if (UNLIKELY(a >= 0xFF6 && a <= 0xFF9)) {
            if (rom_size == 8192) { if (a >= 0xFF8) s.bank[0] = (u16)(a - 0xFF8); }
            else s.bank[0] = (u16)(a - 0xFF6);
        }
#elif BANKS == 2
        if (UNLIKELY(a >= 0xFE0 && a <= 0xFF7)) s.bank[(a - 0xFE0) >> 3] = (u16)(a & 7);
#endif
        (void)a;
    }

    INLINE u8 rom_read(u32 address) {
        hotspot(address);
#if BANKS == 0
        return rom[address & 0xFFF];
#elif BANKS == 1
        if (superchip && (address & 0xFFF) < 0x100) return s.extra[address & 0x7F];
        return rom[(address & 0xFFF) + s.bank[0] * 4096];
#else
        return CODE(address);
#endif
    }

    OUTLINE u8 read(u32 address, u8 bus) {
        if (LIKELY(address & 0x1000)) return rom_read(address);
        if (address & 0x80) return address & 0x200 ? riot_read(address) : s.ram[address & 0x7F];
        return tia_read(address, s.cycle * 3, bus);
    }

    OUTLINE void write(u32 address, u8 v) {
        if (address & 0x1000) {
            hotspot(address);
            if (superchip && (address & 0xFFF) < 0x80) s.extra[address & 0x7F] = v;
        } else if (address & 0x80) {
            if (address & 0x200) riot_write(address, v);
            else s.ram[address & 0x7F] = v;
        } else
            tia_write(address, v, s.cycle * 3);
    }

    INLINE u8 read_zero(u32 address) {
        return LIKELY(address & 0x80) ? s.ram[address & 0x7F] : tia_read(address, s.cycle * 3, (u8)address);
    }

    INLINE void write_zero(u32 address, u8 v) {
        if (address & 0x80) s.ram[address & 0x7F] = v;
        else tia_write(address, v, s.cycle * 3);
    }

    INLINE u8 code_read(u32 p) {
        return LIKELY(p & 0x1000) ? rom_read(p) : read(p, 0);
    }

    // ---------------------------------------------------------------- 6507

#define FETCH(p) (LIKELY((p) & 0x1000) ? (u32)CODE(p) : (u32)code_read(p))
#define RZ(ad) ((ad) & 0x80 ? (u32)s.ram[(ad) & 0x7F] : (s.cycle = c, (u32)tia_read(ad, c * 3, (u8)(ad))))
#define RM(ad, bus) (s.cycle = c, (u32)read(ad, (u8)(bus)))
#define WZ(ad, v) \
    if ((ad) & 0x80) s.ram[(ad) & 0x7F] = (u8)(v); \
    else { s.cycle = c; tia_write(ad, (u8)(v), c * 3); c = s.cycle; }
#define WM(ad, v) { s.cycle = c; write(ad, (u8)(v)); c = s.cycle; }
#define NZ(v) (n = z = (v) & 0xFF)
#define PUSH(v) { WZ(sp, v); sp = (sp - 1) & 0xFF; }
#define PULL(v) { sp = (sp + 1) & 0xFF; v = RZ(sp); }

    // Where an operand is; ``k`` cycles have passed when it is reached.
#define IMM(k) c += k; v = FETCH(pc); pc++;
#define ZP(k) c += k; ad = FETCH(pc); pc++;
#define ZPX(k) c += k; ad = (FETCH(pc) + x) & 0xFF; pc++;
#define ZPY(k) c += k; ad = (FETCH(pc) + y) & 0xFF; pc++;
#define ABS(k) c += k; hi = FETCH(pc + 1); ad = FETCH(pc) | hi << 8; pc += 2;
#define ABR(k, r) c += k; hi = FETCH(pc + 1); ad = FETCH(pc) + r; c += (i32)(ad >> 8); ad = (ad + (hi << 8)) & 0xFFFF; pc += 2;
#define ABW(k, r) c += k; hi = FETCH(pc + 1); ad = (FETCH(pc) + r + (hi << 8)) & 0xFFFF; pc += 2;
#define INX(k) c += k; t = (FETCH(pc) + x) & 0xFF; pc++; ad = RZ(t); t = (t + 1) & 0xFF; hi = RZ(t); ad |= hi << 8;
#define INY(k) c += k; t = FETCH(pc); pc++; ad = RZ(t); t = (t + 1) & 0xFF; hi = RZ(t); ad += y; c += (i32)(ad >> 8); ad = (ad + (hi << 8)) & 0xFFFF;
#define INW(k) c += k; t = FETCH(pc); pc++; ad = RZ(t); t = (t + 1) & 0xFF; hi = RZ(t); ad = (ad + y + (hi << 8)) & 0xFFFF;

#define READS(base, DO) \
    case base + 0x09: { IMM(2) DO } break; \
    case base + 0x05: { ZP(3) v = RZ(ad); DO } break; \
    case base + 0x15: { ZPX(4) v = RZ(ad); DO } break; \
    case base + 0x0D: { ABS(4) v = RM(ad, hi); DO } break; \
    case base + 0x1D: { ABR(4, x) v = RM(ad, hi); DO } break; \
    case base + 0x19: { ABR(4, y) v = RM(ad, hi); DO } break; \
    case base + 0x01: { INX(6) v = RM(ad, hi); DO } break; \
    case base + 0x11: { INY(5) v = RM(ad, hi); DO } break;
#define CHANGES(base, DO) \
    case base + 0x06: { ZP(5) v = RZ(ad); DO WZ(ad, v) } break; \
    case base + 0x16: { ZPX(6) v = RZ(ad); DO WZ(ad, v) } break; \
    case base + 0x0E: { ABS(6) v = RM(ad, hi); DO WM(ad, v) } break; \
    case base + 0x1E: { ABW(7, x) v = RM(ad, hi); DO WM(ad, v) } break;
#define BOTH(base, DO) /* the undocumented ones that change memory and the accumulator */ \
    case base + 0x07: { ZP(5) v = RZ(ad); DO } WZ(ad, t) break; \
    case base + 0x17: { ZPX(6) v = RZ(ad); DO } WZ(ad, t) break; \
    case base + 0x0F: { ABS(6) v = RM(ad, hi); DO } WM(ad, t) break; \
    case base + 0x1F: { ABW(7, x) v = RM(ad, hi); DO } WM(ad, t) break; \
    case base + 0x1B: { ABW(7, y) v = RM(ad, hi); DO } WM(ad, t) break; \
    case base + 0x03: { INX(8) v = RM(ad, hi); DO } WM(ad, t) break; \
    case base + 0x13: { INW(8) v = RM(ad, hi); DO } WM(ad, t) break;

#define ORA a |= v; NZ(a);
#define AND a &= v; NZ(a);
#define EOR a ^= v; NZ(a);
#define LDA a = v; NZ(a);
#define COMPARE(r) t = r - v; cf = t < 0x100; NZ(t);
#define CMP COMPARE(a)
#define ADC \
    if (LIKELY(!df)) { \
        t = a + v + cf; cf = t >> 8; vf = ((a ^ t) & (v ^ t) & 0x80) >> 7; a = t & 0xFF; NZ(a); \
    } else { \
        u32 lo = (a & 15) + (v & 15) + cf; \
        z = (a + v + cf) & 0xFF; \
        if (lo > 9) lo = ((lo + 6) & 15) + 16; \
        t = (a & 0xF0) + (v & 0xF0) + lo; \
        n = t & 0xFF; vf = ((a ^ t) & (v ^ t) & 0x80) >> 7; \
        if (t >= 0xA0) t += 0x60; \
        cf = t >= 0x100; a = t & 0xFF; \
    }
#define SBC { \
        u32 borrow = 1 - cf, old = a; \
        t = a - v - borrow; \
        vf = ((old ^ v) & (old ^ t) & 0x80) >> 7; \
        u32 binary = t; \
        if (LIKELY(!df)) a = t & 0xFF; \
        else { \
            i32 lo = (i32)(old & 15) - (i32)(v & 15) - (i32)borrow; \
            i32 all = (i32)(old & 0xF0) - (i32)(v & 0xF0); \
            if (lo < 0) all += ((lo - 6) & 15) - 16; else all += lo; \
            if (all < 0) all -= 0x60; \
            a = (u32)all & 0xFF; \
        } \
        cf = binary < 0x100; NZ(binary); \
    }
#define ASL cf = v >> 7; v = (v << 1) & 0xFF; NZ(v);
#define ROL t = v << 1 | cf; cf = v >> 7; v = t & 0xFF; NZ(v);
#define LSR cf = v & 1; v >>= 1; NZ(v);
#define ROR t = v >> 1 | cf << 7; cf = v & 1; v = t; NZ(v);
#define INC v = (v + 1) & 0xFF; NZ(v);
#define DEC v = (v - 1) & 0xFF; NZ(v);
#define SLO ASL ORA t = v;
#define RLA ROL AND t = v;
#define SRE LSR EOR t = v;
#define RRA { ROR u32 m = v; ADC t = m; }
#define DCP { DEC u32 m = v; CMP t = m; }
#define ISC { v = (v + 1) & 0xFF; u32 m = v; SBC t = m; }
#define BIT z = a & v; n = v; vf = v >> 6 & 1;
#define BRANCH(when) { \
        c += 2; v = FETCH(pc); pc++; \
        if (when) { u32 to = (pc + (u32)(i32)(signed char)v) & 0xFFFF; c += 1 + (i32)(((to ^ pc) >> 8) & 1); pc = to; } \
    } break;
#define FLAGS (cf | (z ? 0u : 2u) | intf << 2 | df << 3 | 0x30 | vf << 6 | (n & 0x80))
#define SET_FLAGS(p) { cf = (p) & 1; z = !((p) & 2); intf = (p) >> 2 & 1; df = (p) >> 3 & 1; vf = (p) >> 6 & 1; n = (p) & 0x80; }

    // Instructions until a frame ends, but no more than these.
    OUTLINE void run(i32 most) {
        u32 pc = s.pc, a = s.a, x = s.x, y = s.y, sp = s.sp;
        u32 cf, z, intf, df, vf, n;
        i32 c = s.cycle;
        SET_FLAGS(s.flags)
        limit = most;
        for (i32 k = 0; k < limit; k++) {
            u32 op = FETCH(pc), v, t, ad, hi;
            (void)v; (void)t; (void)ad; (void)hi;
            pc++;
            switch (op) {
                READS(0x00, ORA)
                READS(0x20, AND)
                READS(0x40, EOR)
                READS(0x60, ADC)
                READS(0xA0, LDA)
                READS(0xC0, CMP)
                READS(0xE0, SBC)
                CHANGES(0x00, ASL)
                CHANGES(0x20, ROL)
                CHANGES(0x40, LSR)
                CHANGES(0x60, ROR)
                CHANGES(0xC0, DEC)
                CHANGES(0xE0, INC)
                BOTH(0x00, SLO)
                BOTH(0x20, RLA)
                BOTH(0x40, SRE)
                BOTH(0x60, RRA)
                BOTH(0xC0, DCP)
                BOTH(0xE0, ISC)
                case 0x85: { ZP(3) WZ(ad, a) } break;
                case 0x95: { ZPX(4) WZ(ad, a) } break;
                case 0x8D: { ABS(4) WM(ad, a) } break;
                case 0x9D: { ABW(5, x) WM(ad, a) } break;
                case 0x99: { ABW(5, y) WM(ad, a) } break;
                case 0x81: { INX(6) WM(ad, a) } break;
                case 0x91: { INW(6) WM(ad, a) } break;
                case 0x86: { ZP(3) WZ(ad, x) } break;
                case 0x96: { ZPY(4) WZ(ad, x) } break;
                case 0x8E: { ABS(4) WM(ad, x) } break;
                case 0x84: { ZP(3) WZ(ad, y) } break;
                case 0x94: { ZPX(4) WZ(ad, y) } break;
                case 0x8C: { ABS(4) WM(ad, y) } break;
                case 0xA2: { IMM(2) x = v; NZ(x); } break;
                case 0xA6: { ZP(3) x = RZ(ad); NZ(x); } break;
                case 0xB6: { ZPY(4) x = RZ(ad); NZ(x); } break;
                case 0xAE: { ABS(4) x = RM(ad, hi); NZ(x); } break;
                case 0xBE: { ABR(4, y) x = RM(ad, hi); NZ(x); } break;
                case 0xA0: { IMM(2) y = v; NZ(y); } break;
                case 0xA4: { ZP(3) y = RZ(ad); NZ(y); } break;
                case 0xB4: { ZPX(4) y = RZ(ad); NZ(y); } break;
                case 0xAC: { ABS(4) y = RM(ad, hi); NZ(y); } break;
                case 0xBC: { ABR(4, x) y = RM(ad, hi); NZ(y); } break;
                case 0xE0: { IMM(2) COMPARE(x) } break;
                case 0xE4: { ZP(3) v = RZ(ad); COMPARE(x) } break;
                case 0xEC: { ABS(4) v = RM(ad, hi); COMPARE(x) } break;
                case 0xC0: { IMM(2) COMPARE(y) } break;
                case 0xC4: { ZP(3) v = RZ(ad); COMPARE(y) } break;
                case 0xCC: { ABS(4) v = RM(ad, hi); COMPARE(y) } break;
                case 0x24: { ZP(3) v = RZ(ad); BIT } break;
                case 0x2C: { ABS(4) v = RM(ad, hi); BIT } break;
                case 0x0A: { c += 2; v = a; ASL a = v; } break;
                case 0x2A: { c += 2; v = a; ROL a = v; } break;
                case 0x4A: { c += 2; v = a; LSR a = v; } break;
                case 0x6A: { c += 2; v = a; ROR a = v; } break;
                case 0x10: BRANCH(!(n & 0x80))
                case 0x30: BRANCH(n & 0x80)
                case 0x50: BRANCH(!vf)
                case 0x70: BRANCH(vf)
                case 0x90: BRANCH(!cf)
                case 0xB0: BRANCH(cf)
                case 0xD0: BRANCH(z)
                case 0xF0: BRANCH(!z)
                case 0x4C: c += 3; pc = FETCH(pc) | FETCH(pc + 1) << 8; break;
                case 0x6C: {
                    ABS(5)
                    t = RM(ad, hi);
                    pc = t | RM((ad & 0xFF00) | ((ad + 1) & 0xFF), hi) << 8;
                } break;
                case 0x20: {
                    c += 6;
                    ad = FETCH(pc) | FETCH(pc + 1) << 8;
                    pc++;
                    PUSH(pc >> 8 & 0xFF)
                    PUSH(pc & 0xFF)
                    pc = ad;
                } break;
                case 0x60: { c += 6; PULL(t) PULL(v) pc = ((t | v << 8) + 1) & 0xFFFF; } break;
                case 0x40: { c += 6; PULL(t) SET_FLAGS(t) PULL(t) PULL(v) pc = t | v << 8; } break;
                case 0x00: {
                    c += 7;
                    pc++;
                    PUSH(pc >> 8 & 0xFF)
                    PUSH(pc & 0xFF)
                    PUSH(FLAGS)
                    intf = 1;
                    pc = FETCH(0xFFFE) | FETCH(0xFFFF) << 8;
                } break;
                case 0x48: { c += 3; PUSH(a) } break;
                case 0x08: { c += 3; PUSH(FLAGS) } break;
                case 0x68: { c += 4; PULL(a) NZ(a); } break;
                case 0x28: { c += 4; PULL(t) SET_FLAGS(t) } break;
                case 0xAA: c += 2; x = a; NZ(x); break;
                case 0x8A: c += 2; a = x; NZ(a); break;
                case 0xA8: c += 2; y = a; NZ(y); break;
                case 0x98: c += 2; a = y; NZ(a); break;
                case 0xBA: c += 2; x = sp; NZ(x); break;
                case 0x9A: c += 2; sp = x; break;
                case 0xE8: c += 2; x = (x + 1) & 0xFF; NZ(x); break;
                case 0xCA: c += 2; x = (x - 1) & 0xFF; NZ(x); break;
                case 0xC8: c += 2; y = (y + 1) & 0xFF; NZ(y); break;
                case 0x88: c += 2; y = (y - 1) & 0xFF; NZ(y); break;
                case 0x18: c += 2; cf = 0; break;
                case 0x38: c += 2; cf = 1; break;
                case 0x58: c += 2; intf = 0; break;
                case 0x78: c += 2; intf = 1; break;
                case 0xB8: c += 2; vf = 0; break;
                case 0xD8: c += 2; df = 0; break;
                case 0xF8: c += 2; df = 1; break;
                case 0xEA: case 0x1A: case 0x3A: case 0x5A: case 0x7A: case 0xDA: case 0xFA: c += 2; break;
                // undocumented
                case 0x80: case 0x82: case 0x89: case 0xC2: case 0xE2: c += 2; pc++; break;
                case 0x04: case 0x44: case 0x64: { ZP(3) v = RZ(ad); } break;
                case 0x14: case 0x34: case 0x54: case 0x74: case 0xD4: case 0xF4: { ZPX(4) v = RZ(ad); } break;
                case 0x0C: { ABS(4) v = RM(ad, hi); } break;
                case 0x1C: case 0x3C: case 0x5C: case 0x7C: case 0xDC: case 0xFC: { ABR(4, x) v = RM(ad, hi); } break;
                case 0xA7: { ZP(3) a = x = RZ(ad); NZ(a); } break;
                case 0xB7: { ZPY(4) a = x = RZ(ad); NZ(a); } break;
                case 0xAF: { ABS(4) a = x = RM(ad, hi); NZ(a); } break;
                case 0xBF: { ABR(4, y) a = x = RM(ad, hi); NZ(a); } break;
                case 0xA3: { INX(6) a = x = RM(ad, hi); NZ(a); } break;
                case 0xB3: { INY(5) a = x = RM(ad, hi); NZ(a); } break;
                case 0xAB: { IMM(2) a = x = (a | 0xEE) & v; NZ(a); } break;
                case 0x87: { ZP(3) v = a & x; WZ(ad, v) } break;
                case 0x97: { ZPY(4) v = a & x; WZ(ad, v) } break;
                case 0x8F: { ABS(4) v = a & x; WM(ad, v) } break;
                case 0x83: { INX(6) v = a & x; WM(ad, v) } break;
                case 0x0B: case 0x2B: { IMM(2) AND cf = a >> 7; } break;
                case 0x4B: { IMM(2) a &= v; cf = a & 1; a >>= 1; NZ(a); } break;
                case 0x6B: {
                    IMM(2)
                    v &= a;
                    a = v >> 1 | cf << 7;
                    NZ(a);
                    if (!df) { cf = a >> 6 & 1; vf = (a >> 6 ^ a >> 5) & 1; }
                    else {
                        vf = (a ^ v) >> 6 & 1;
                        if ((v & 15) + (v & 1) > 5) a = (a & 0xF0) | ((a + 6) & 15);
                        cf = v + (v & 0x10) > 0x50;
                        if (cf) a = (a + 0x60) & 0xFF;
                    }
                } break;
                case 0x8B: { IMM(2) a = (a | 0xEE) & x & v; NZ(a); } break;
                case 0xCB: { IMM(2) t = (a & x) - v; cf = t < 0x100; x = t & 0xFF; NZ(x); } break;
                case 0xEB: { IMM(2) SBC } break;
                case 0xBB: { ABR(4, y) v = RM(ad, hi); a = x = sp = v & sp; NZ(a); } break;
                case 0x93: { INW(6) v = a & x & (hi + 1); WM(ad, v) } break;
                case 0x9F: { ABW(5, y) v = a & x & (hi + 1); WM(ad, v) } break;
                case 0x9B: { ABW(5, y) sp = a & x; v = sp & (hi + 1); WM(ad, v) } break;
                case 0x9C: { ABW(5, x) v = y & (hi + 1); WM(ad, v) } break;
                case 0x9E: { ABW(5, y) v = x & (hi + 1); WM(ad, v) } break;
                default: s.jammed = 1; pc--; limit = 0; break;
            }
        }
        s.pc = (u16)pc; s.a = (u8)a; s.x = (u8)x; s.y = (u8)y; s.sp = (u8)sp;
        s.flags = (u8)(FLAGS);
        s.cycle = c;
    }

    // ---------------------------------------------------------------- frames

    void power_on() {
        u8* p = (u8*)&s;
        for (u32 i = 0; i < sizeof(State); i++) p[i] = 0;
        s.swcha = 0xFF;
        s.swchb = 0x3F;
        s.latch[0] = s.latch[1] = 0x80;
        s.pot[0] = s.pot[1] = s.pot[2] = s.pot[3] = -1;
        s.timer_shift = 10;
        s.flags = 0x34;
        s.sp = 0xFF;
#if BANKS == 2
        for (i32 i = 0; i < 4; i++) s.bank[i] = (u16)(4 + i);
#endif
        attach();
        s.pc = (u16)(FETCH(0xFFFC) | FETCH(0xFFFD) << 8);
    }

    // After the state came from elsewhere.
    void attach() { dirty = 63; }

    OUTLINE void frame() {
        ended = 0;
        run(25000);
        if (!ended) return;  // a game that waits long without a write to the TIA: its frame goes on
        sync(s.cycle * 3);
        i32 passed = s.cycle / 76 * 76;
        s.cycle -= passed;
        s.drawn -= passed * 3;
        s.timer_set -= passed;
        if (s.pots_free != 0x7FFFFFFF) s.pots_free -= passed;
        s.vsync_since -= passed * 3;
        if (s.timer_set < -(1 << 29)) s.timer_set += 1 << 28;
        if (s.pots_free < -(1 << 29)) s.pots_free = -(1 << 29);
        s.frames++;
    }
};
