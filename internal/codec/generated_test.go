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
	"berth/structs"
	"berth/tools/codecgen"
)

// promoted has no codec: it has the methods of the embedded struct.
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
	for _, v := range []any{
		v,
		*v,
		[]*promoted{v, nil},
		&[]*promoted{v},
		(*promoted)(nil),
		[]promoted{*v},
		&promotedPointer{&structs.Indexes{CreateIndex: 1}, 2},
		promotedPointer{&structs.Indexes{CreateIndex: 1}, 2},
	} {
		want := byHandle(t, v)
		if got, err := codec.Encode(v); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %v\n got %q\nwant %q", v, err, got, want)
		}
	}
	var back promoted
	if err := codec.Decode(byHandle(t, v), &back); err != nil || !reflect.DeepEqual(&back, v) {
		t.Errorf("got %+v, %v; want %+v", back, err, v)
	}
	var rows []*promoted
	if err := codec.Decode(byHandle(t, []*promoted{v}), &rows); err != nil || len(rows) != 1 ||
		!reflect.DeepEqual(rows[0], v) {
		t.Errorf("got %+v, %v; want one row %+v", rows, err, v)
	}
}

// TestGenerated_IsEachStructOfTheList: a struct without methods of its own that embeds another would be
// written as the embedded one.
func TestGenerated_IsEachStructOfTheList(t *testing.T) {
	if len(all) < 150 {
		t.Fatalf("there are only %d structs, want at least 150", len(all))
	}
	found := 0
	for _, v := range all {
		g, ok := v.(codec.Generated)
		own := ok && g.MsgpackSelf() == v
		hot := slices.Contains(codecgen.Hot, reflect.TypeOf(v).Elem().Name())
		if own != hot {
			t.Errorf("%T: is on the list %v, has a codec of its own %v", v, hot, own)
		}
		if own {
			found++
		}
	}
	if found != len(codecgen.Hot) {
		t.Errorf("%d structs have codecs, want %d as on the list", found, len(codecgen.Hot))
	}
}

// TestDecode_AllocatesAsFarAsBytesFollow: each field of each type has a length without the bytes.
func TestDecode_AllocatesAsFarAsBytesFollow(t *testing.T) {
	claims := [][]byte{{0xdd, 0x7f, 0xff, 0xff, 0xff}, {0xdf, 0x7f, 0xff, 0xff, 0xff},
		{0xdb, 0x7f, 0xff, 0xff, 0xff},
		{0xc6, 0x7f, 0xff, 0xff, 0xff}, {0xdd, 0, 0, 0x7f, 0xff}}
	for _, v := range all {
		n, _ := parseNode(byHandle(t, (&filler{Rand: rand.New(rand.NewPCG(1, 1))}).fillValue(newOf(v))))
		for i := 0; i < len(n.of); i += 2 {
			payload := n.of[i].append([]byte{0x81})
			for _, claim := range claims {
				for _, ends := range [][]byte{claim, append(append([]byte{0x91, 0x81, 0xa1, 'x'}, claim...), claim...)} {
					grown := allocated(func() {
						if codec.Decode(append(payload[:len(payload):len(payload)], ends...), newOf(v)) == nil {
							t.Errorf("%T: Decode accepts %q with %x", v, payload, ends)
						}
					})
					if grown > 1<<20 {
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
	const want = "structs.CSIVolumeClaimResponse: Claims: GrantIndex: "
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestEncode_FailsForAValueWithoutEncoding: the value is in a struct that goes by reflection, also within one
// that has a codec.
func TestEncode_FailsForAValueWithoutEncoding(t *testing.T) {
	task := &structs.Task{Config: map[string]any{"c": make(chan<- int)}}
	job := &structs.Job{TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{task}}}}
	for _, v := range []any{job, &structs.AllocsResponse{Allocs: []*structs.Allocation{{Job: job}}}} {
		want := fmt.Sprintf("encoding %T: ", v)
		if _, err := codec.Encode(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestDecode_RejectsDeepNesting: values nest in a field, in a field that goes by reflection within a struct
// that has a codec, and in an unknown field.
func TestDecode_RejectsDeepNesting(t *testing.T) {
	lists := bytes.Repeat([]byte{0x91}, 1<<20)
	config := append([]byte("\x81\xa6Config"), lists...)
	job := append([]byte("\x81\xa3Job\x81\xaaTaskGroups\x91\x81\xa5Tasks\x91"), config...)
	unknown := append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x81, 0xa0}, 1<<19)...)
	for _, b := range [][]byte{config, job, unknown} {
		for _, v := range all {
			if err := codec.Decode(b, newOf(v)); err == nil {
				t.Errorf("%T: Decode accepts deep nesting", v)
			}
		}
	}
}
