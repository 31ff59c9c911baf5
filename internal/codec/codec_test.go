package codec

import (
	"bytes"
	"runtime"
	"testing"
)

func TestEncode_WritesEqualValuesAsEqualBytes(t *testing.T) {
	m := map[string]string{}
	for _, k := range []string{"d", "a", "c", "b", "z", "y"} {
		m[k] = k
	}
	first, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := Encode(m); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("got %x, then %x, %v; want equal bytes", first, again, err)
		}
	}
}

func TestDecode_ALengthAloneCostsNoMemory(t *testing.T) {
	type row struct{ Values []string }
	// A map of one field whose array claims 2^31 strings and then ends.
	payload := append([]byte{0x81, 0xa6}, "Values"...)
	payload = append(payload, 0xdd, 0x7f, 0xff, 0xff, 0xff)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var r row
	if err := Decode(payload, &r); err == nil {
		t.Error("Decode accepts an array that lacks its elements")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d MiB were allocated for a few bytes, want at most 8", grown>>20)
	}
}

func FuzzDecode(f *testing.F) {
	seed, _ := Encode(map[string]any{"a": []any{1, "b", nil, map[string]any{"c": 1.5}}})
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var v any
		_ = Decode(b, &v) // an error, never a panic
	})
}
