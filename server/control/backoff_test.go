package control

import (
	"testing"
	"time"

	"berth/structs"
)

func TestDueAfter_LooksAtTheKindOfError(t *testing.T) {
	c := DefaultConfig()
	at := time.Unix(1000, 0)
	for kind, want := range map[structs.Kind]time.Duration{
		structs.KindUnavailable: c.Retry.Min, structs.KindTimeout: c.Retry.Min, structs.KindInternal: c.Retry.Min,
		structs.KindInvalid: finalRetry, structs.KindPrecondition: finalRetry,
	} {
		if got := c.dueAfter(&structs.OperationError{Kind: kind, Attempts: 1,
			Time: at.UnixNano()}); !got.Equal(at.Add(want)) {
			t.Errorf("%s: due %s after, want %s", kind, got.Sub(at), want)
		}
	}
	if !c.dueAfter(nil).IsZero() {
		t.Error("a call that has not failed is delayed")
	}
}
