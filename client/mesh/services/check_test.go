package services

import (
	"testing"

	"berth/structs"
)

func TestWorstStatus_Ordered(t *testing.T) {
	order := []string{"", structs.CheckPassing, structs.CheckWarning, structs.CheckPending, structs.CheckFailing}
	for i, a := range order {
		for n, b := range order {
			if got := worstStatus(a, b); got != order[max(i, n)] {
				t.Errorf("%q and %q: got %q", a, b, got)
			}
		}
	}
}
