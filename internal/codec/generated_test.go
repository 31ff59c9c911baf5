package codec_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/internal/codecgen"
	"berth/structs"
)

// promoted has no codec: its methods are those of the embedded struct.
type promoted struct {
	Before string
	structs.CSIClaim
	After int
}

type promotedPointer struct {
	*structs.Indexes
	After int
}

func TestEncode_UsesNoInheritedCodec(t *testing.T) {
	v := &promoted{Before: "b", CSIClaim: structs.CSIClaim{VolumeID: "v"}, After: 7}
	for _, v := range []any{v, *v, []*promoted{v, nil}, &[]*promoted{v}, (*promoted)(nil), []promoted{*v},
		&promotedPointer{&structs.Indexes{CreateIndex: 1}, 2},
		promotedPointer{&structs.Indexes{CreateIndex: 1}, 2}} {
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
	if err := codec.Decode(byHandle(t, []*promoted{v}), &rows); err != nil || len(rows) != 1 ||
		!reflect.DeepEqual(rows[0], v) {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestGenerated_IsEachStructOfTheList: a struct that embeds another and had no methods would be written as
// the embedded one.
func TestGenerated_IsEachStructOfTheList(t *testing.T) {
	if len(all) < 150 {
		t.Fatalf("there are but %d structs", len(all))
	}
	found := 0
	for _, v := range all {
		g, ok := v.(codec.Generated)
		own := ok && g.MsgpackSelf() == v
		hot := slices.Contains(codecgen.Hot, reflect.TypeOf(v).Elem().Name())
		if own != hot {
			t.Errorf("%T: on the list %v, has a codec of its own %v", v, hot, own)
		}
		if own {
			found++
		}
	}
	if found != len(codecgen.Hot) {
		t.Errorf("%d structs have codecs, %d are on the list", found, len(codecgen.Hot))
	}
}

// TestDecode_AllocatesAsFarAsBytesFollow gives each field of each type a length that nothing follows.
func TestDecode_AllocatesAsFarAsBytesFollow(t *testing.T) {
	claims := [][]byte{{0xdd, 0x7f, 0xff, 0xff, 0xff}, {0xdf, 0x7f, 0xff, 0xff, 0xff},
		{0xdb, 0x7f, 0xff, 0xff, 0xff},
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

func TestDecode_ErrorNamesTheField(t *testing.T) {
	type list struct{ Claims []map[string]any }
	b := byHandle(t, list{[]map[string]any{{}, {"Namespace": "x", "GrantIndex": -1}}})
	err := codec.Decode(b, new(structs.CSIVolumeClaimResponse))
	if err == nil || !strings.Contains(err.Error(), "structs.CSIVolumeClaimResponse: Claims: GrantIndex: ") {
		t.Error(err)
	}
}

// TestEncode_FailsForAValueThatHasNoForm has it in a struct that goes by reflection within one that does not.
func TestEncode_FailsForAValueThatHasNoForm(t *testing.T) {
	task := &structs.Task{Config: map[string]any{"c": make(chan<- int)}}
	job := &structs.Job{TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{task}}}}
	for _, v := range []any{job, &structs.AllocsResponse{Allocs: []*structs.Allocation{{Job: job}}}} {
		if _, err := codec.Encode(v); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("encoding %T: ", v)) {
			t.Error(err)
		}
	}
}

// TestDecode_RefusesDeepNesting nests values in a field, in a field that goes by reflection within a struct
// that does not, and in an unknown field.
func TestDecode_RefusesDeepNesting(t *testing.T) {
	lists := bytes.Repeat([]byte{0x91}, 1<<20)
	config := append([]byte("\x81\xa6Config"), lists...)
	job := append([]byte("\x81\xa3Job\x81\xaaTaskGroups\x91\x81\xa5Tasks\x91"), config...)
	unknown := append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x81, 0xa0}, 1<<19)...)
	for _, b := range [][]byte{config, job, unknown} {
		for _, v := range all {
			if err := codec.Decode(b, fresh(v)); err == nil {
				t.Errorf("%T takes it", v)
			}
		}
	}
}
