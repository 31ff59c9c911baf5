package command

import "testing"

func TestInsteadOf_FindsTheGroupOfACommand(t *testing.T) {
	for path, want := range map[string]string{
		"sentinel":                  absent["sentinel"],
		"sentinel list":             absent["sentinel"],
		"operator raft state /data": absent["operator raft state"],
		"operator raft":             "",
		"job":                       "",
		"":                          "",
	} {
		if got := insteadOf(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
