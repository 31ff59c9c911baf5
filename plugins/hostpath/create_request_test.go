package hostpath

import (
	"math"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Rounding up a size near the end of an int64 would overflow.
func TestCheckRange_RejectsASizeThatCannotBeRounded(t *testing.T) {
	for _, size := range []int64{maxSize + 1, math.MaxInt64} {
		err := checkRange(&csi.CapacityRange{RequiredBytes: size})
		if err == nil || !strings.Contains(err.Error(), "the largest size of a volume") {
			t.Errorf("%d: %v", size, err)
		}
	}
	if err := checkRange(&csi.CapacityRange{RequiredBytes: maxSize}); err != nil {
		t.Error(err)
	}
}
