package place

import (
	"math"
	"testing"
)

func TestPowerOfTen_IsExactEnough(t *testing.T) {
	for x := 0.0; x <= 1; x += 0.00037 {
		if got, want := powerOfTen(x), math.Pow(10, x); math.Abs(got-want) > 1e-5 {
			t.Errorf("10 to the power of %v: got %v, want %v", x, got, want)
		}
	}
	if powerOfTen(0) != 1 || powerOfTen(1) != 10 || powerOfTen(-1) != 1 || powerOfTen(2) != 10 {
		t.Error("the ends are wrong")
	}
}
