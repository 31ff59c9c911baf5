package command

import "testing"

func TestInsteadOf_FindsTheGroupOfACommand(t *testing.T) {
	for path, want := range map[string]string{
		"sentinel":                 absent["sentinel"],
		"sentinel list":            absent["sentinel"],
		"operator raft info /data": absent["operator raft info"],
		"operator raft":            "",
		"job":                      "",
		"":                         "",
	} {
		if got := insteadOf(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
