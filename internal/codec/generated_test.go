package codec_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/structs"
)

// promoted has no codec of its own: its method set is that of what it embeds.
type promoted struct {
	Before string
	structs.CSIClaim
	After int
}

type promotedPointer struct {
	*structs.Indexes
	After int
}

func TestAPromotedCodecIsNotUsed(t *testing.T) {
	v := &promoted{Before: "b", CSIClaim: structs.CSIClaim{VolumeID: "v"}, After: 7}
	for _, v := range []any{v, *v, []*promoted{v, nil}, &[]*promoted{v}, (*promoted)(nil), []promoted{*v},
		&promotedPointer{&structs.Indexes{CreateIndex: 1}, 2}, promotedPointer{&structs.Indexes{CreateIndex: 1}, 2}} {
		want := byHandle(t, v)
		if got, err := codec.Encode(v); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %v\n got %q\nwant %q", v, err, got, want)
		}
	}
	var back promoted
	if err := codec.Decode(byHandle(t, v), &back); err != nil || !reflect.DeepEqual(&back, v) {
		t.Errorf("%+v, %v", back, err)
	}
	var rows []*promoted
	if err := codec.Decode(byHandle(t, []*promoted{v}), &rows); err != nil || len(rows) != 1 || !reflect.DeepEqual(rows[0], v) {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestEveryCodecIsItsTypesOwn: a struct that embeds another and had no methods of its own would be written as
// that other.
func TestEveryCodecIsItsTypesOwn(t *testing.T) {
	if len(all) < 100 {
		t.Fatalf("there are but %d", len(all))
	}
	for _, v := range all {
		if v.MsgpackSelf() != any(v) {
			t.Errorf("%T has the codec of another", v)
		}
	}
}

// TestMemoryGrowsWithWhatIsThere gives each field of each type a length that nothing follows.
func TestMemoryGrowsWithWhatIsThere(t *testing.T) {
	claims := [][]byte{{0xdd, 0x7f, 0xff, 0xff, 0xff}, {0xdf, 0x7f, 0xff, 0xff, 0xff}, {0xdb, 0x7f, 0xff, 0xff, 0xff},
		{0xc6, 0x7f, 0xff, 0xff, 0xff}, {0xdd, 0, 0, 0x7f, 0xff}}
	for _, v := range all {
		n, _ := parse(byHandle(t, (&filler{Rand: rand.New(rand.NewPCG(1, 1))}).value(fresh(v))))
		for i := 0; i < len(n.of); i += 2 {
			payload := n.of[i].append([]byte{0x81})
			for _, claim := range claims {
				for _, ends := range [][]byte{claim, append(append([]byte{0x91, 0x81, 0xa1, 'x'}, claim...), claim...)} {
					if grown := allocated(func() {
						if codec.Decode(append(payload[:len(payload):len(payload)], ends...), fresh(v)) == nil {
							t.Errorf("%T: %q with %x is read", v, payload, ends)
						}
					}); grown > 1<<20 {
						t.Errorf("%T: %d KiB were allocated for %q", v, grown>>10, payload)
					}
				}
			}
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestErrorsSayWhere(t *testing.T) {
	type list struct{ Claims []map[string]any }
	b := byHandle(t, list{[]map[string]any{{}, {"Namespace": "x", "GrantIndex": -1}}})
	err := codec.Decode(b, new(structs.CSIVolumeClaimResponse))
	if err == nil || !strings.Contains(err.Error(), "structs.CSIVolumeClaimResponse: Claims[1].GrantIndex: ") {
		t.Error(err)
	}
	job := &structs.Job{TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{{Config: map[string]any{"c": make(chan<- int)}}}}}}
	if _, err = codec.Encode(job); err == nil || !strings.Contains(err.Error(), `structs.Job: TaskGroups[0].Tasks[0].Config["c"]: `) {
		t.Error(err)
	}
}

func TestNothingIsTooDeep(t *testing.T) {
	deep := append([]byte{0x81, 0xa6}, "Config"...)
	deep = append(deep, bytes.Repeat([]byte{0x91}, 1<<20)...)
	unknown := append([]byte{0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x81, 0xa0}, 1<<19)...)
	for _, b := range [][]byte{deep, unknown} {
		for _, v := range all {
			if err := codec.Decode(b, fresh(v)); err == nil {
				t.Errorf("%T takes it", v)
			}
		}
	}
}
