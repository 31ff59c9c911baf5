package explain

import (
	"testing"
	"time"

	"berth/structs"
)

// TestReason_KeepsItsFactWhileTimePasses checks that a reader can tell a new reason from one whose times
// alone have changed.
func TestReason_KeepsItsFactWhileTimePasses(t *testing.T) {
	tell := func(seconds int64, message string) *structs.Reason {
		x := newExplainer(View{Now: time.Unix(seconds, 0)})
		failed := &structs.OperationError{Message: message, Attempts: int(seconds)}
		return reason("volume data is attaching%s", x.failing(failed))
	}
	first := tell(10, "no such disk")
	later := tell(20, "no such disk")
	other := tell(20, "no access")
	if first.Text == later.Text || first.Same() != later.Same() || first.Same() == other.Same() {
		t.Errorf("the reasons are %+v, %+v and %+v", first, later, other)
	}
}
