package structs

import "testing"

func TestTaskGroup_CountInJSON(t *testing.T) {
	for body, want := range map[string]int{`{}`: 1, `{"Count": null}`: 1, `{"Count": 0}`: 0, `{"Count": 3}`: 3} {
		var g TaskGroup
		if err := g.UnmarshalJSON([]byte(body)); err != nil || g.Count != want {
			t.Errorf("%s: got the count %d, %v; want %d", body, g.Count, err, want)
		}
	}
}
