package retries

import (
	"testing"

	"berth/structs"
)

// A kind that this version does not know comes from a newer node: its call is repeated, not given up.
func TestLasting_KnowsFiveKinds(t *testing.T) {
	for kind, want := range map[structs.Kind]bool{
		structs.KindInvalid:      true,
		structs.KindDenied:       true,
		structs.KindNotFound:     true,
		structs.KindConflict:     true,
		structs.KindPrecondition: true,
		structs.KindUnavailable:  false,
		structs.KindTimeout:      false,
		structs.KindInternal:     false,
		"":                       false,
		"of a later version":     false,
	} {
		if Lasting(kind) != want {
			t.Errorf("%q: %v, want %v", kind, !want, want)
		}
	}
}
