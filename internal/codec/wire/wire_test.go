package wire

import (
	"errors"
	"testing"
)

// TestOthers_AreAnErrorWithoutPackageCodec: a program that encodes a value must have the codec.
func TestOthers_AreAnErrorWithoutPackageCodec(t *testing.T) {
	v := map[string]any{"a": 1}
	b, err := AppendOther([]byte{1}, &v)
	if !errors.Is(err, errMissing) || len(b) != 1 {
		t.Errorf("append: got %v, %v, want an error", b, err)
	}
	if _, err := ReadOther([]byte{0x80}, &v); !errors.Is(err, errMissing) {
		t.Errorf("read: got %v, want an error", err)
	}
}
