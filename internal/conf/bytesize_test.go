package conf

import "testing"

func TestSize_HasUnits(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"100GB": 100_000_000_000,
		"1MiB":  1 << 20,
		"17":    17,
		"":      0,
		"-1":    0,
		"1 XB":  0,
		"99EB":  0,
	} {
		var s ByteSize
		err := s.UnmarshalText([]byte(text))
		if s != want || (err != nil) != (want == 0) {
			t.Errorf("%q: got %d and %v, want %d", text, s, err, want)
		}
	}
}
