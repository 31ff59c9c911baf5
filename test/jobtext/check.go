package jobtext

import "testing"

// Check compares the fields that a package has replaced in a test with the list: it must replace its own
// fields, and no others. replaced has a value for each field that the test has filled.
func Check(t *testing.T, by string, replaced map[string]bool) {
	t.Helper()
	for _, f := range Listed() {
		got, filled := replaced[f.Key()]
		switch {
		case f.By == by && !filled:
			t.Errorf("%s: the test does not fill it", f.Key())
		case f.By == by && !got:
			t.Errorf("%s: %s does not replace its placeholder", f.Key(), by)
		case f.By != by && got:
			t.Errorf("%s: %s replaces its placeholder, and the list does not say so", f.Key(), by)
		}
	}
}
