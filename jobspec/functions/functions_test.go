package functions

import "testing"

// TestFunctions_AreCallable calls every function without arguments: none is nil.
func TestFunctions_AreCallable(t *testing.T) {
	all := NewBudget().Table(Files{})
	for name, f := range all {
		if _, err := f.Call(nil); err == nil && len(f.Params()) > 0 {
			t.Errorf("%s() without its arguments is valid", name)
		}
	}
	for name := range costs {
		if _, known := all[name]; !known {
			t.Errorf("%s has a cost and is no function", name)
		}
	}
}
