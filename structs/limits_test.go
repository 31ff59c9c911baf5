package structs

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCut_KeepsWholeCharacters(t *testing.T) {
	for s, want := range map[string]string{
		"":                     "",
		"abcd":                 "abcd",
		"abcde":                "abcd…",
		"äöü":                  "äö…",
		"aäö":                  "aä…",
		"\xff\xff\xff\xff\xff": "\xff\xff\xff\xff…",
	} {
		if got := Cut(s, 4); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := Cut("\x80\x80\x80", 2); got != "…" {
		t.Errorf("got %q, want an ellipsis", got)
	}
}

func TestError_TextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	wrapped := Errorf(KindInvalid, "%s", long)
	for name, text := range map[string]string{
		"Errorf":                       wrapped.Error(),
		"Busy":                         Busy(time.Second, "%s", long).Error(),
		"wire":                         ErrorToWire(&Error{Kind: KindInvalid, Text: long}),
		"from the wire":                ErrorFromWire("invalid: " + long).Error(),
		"from the wire without a kind": ErrorFromWire(long).Error(),
	} {
		if len(text) > MaxErrorText+64 {
			t.Errorf("%s: got %d bytes, want at most %d", name, len(text), MaxErrorText+64)
		}
	}
}

func TestResources_EqualComparesEachAmount(t *testing.T) {
	r := reflect.ValueOf(&Resources{}).Elem()
	for i := range r.NumField() {
		if r.Field(i).Kind() != reflect.Int {
			continue
		}
		r.Field(i).SetInt(7)
		changed := r.Interface().(Resources)
		if changed.Equal(Resources{}) || !changed.Equal(changed) {
			t.Errorf("Equal does not compare %s", r.Type().Field(i).Name)
		}
		r.Field(i).SetInt(0)
	}
}

func TestResources_SumsDoNotOverflow(t *testing.T) {
	huge := Resources{
		CPU:      math.MaxInt,
		MemoryMB: math.MaxInt,
		DiskMB:   math.MaxInt,
	}
	sum := huge.Add(huge)
	if sum.CPU != math.MaxInt || sum.MemoryMB != math.MaxInt || sum.DiskMB != math.MaxInt {
		t.Errorf("got the sum %+v, want the largest int in each field", sum)
	}
	less := (Resources{}).Sub(huge).Sub(huge)
	if less.CPU != math.MinInt || less.MemoryMB != math.MinInt || less.DiskMB != math.MinInt {
		t.Errorf("got the difference %+v, want the smallest int in each field", less)
	}
	seven := Resources{CPU: 7, MemoryMB: 8, DiskMB: 9}
	three := Resources{CPU: 3, MemoryMB: 4, DiskMB: 5}
	want := Resources{CPU: 4, MemoryMB: 4, DiskMB: 4}
	if got := seven.Sub(three); !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	g := TaskGroup{
		Tasks:         []*Task{{Resources: &huge}, {Resources: &huge}},
		EphemeralDisk: &EphemeralDisk{SizeMB: math.MaxInt},
	}
	node := Node{
		NodeResources: &NodeResources{
			CPU:    NodeCPUResources{CpuShares: 1000},
			Memory: NodeMemoryResources{MemoryMB: 1000},
		},
	}
	if short := node.Available().Exceeded(g.Ask()); short == "" {
		t.Error("two tasks of 2^63-1 fit on a small node")
	}
}
