package watch

import (
	"testing"

	"berth/structs"
)

func TestEndText_ShowsACauseOnce(t *testing.T) {
	event := func(text string) map[string]*structs.TaskState {
		return map[string]*structs.TaskState{"t": {Events: []*structs.TaskEvent{{
			Type:           "Killed",
			DisplayMessage: text,
		}}}}
	}
	for _, c := range []struct{ description, event, want string }{
		{"", "exit code 1", "failed: exit code 1"},
		{"volume v: staging: Internal: no space", "staging: Internal: no space",
			"failed (volume v: staging: Internal: no space)"},
		{"no space", "staging: no space", "failed: staging: no space"},
		{"one", "other", "failed (one): other"},
	} {
		a := &structs.AllocListStub{
			ClientStatus:      "failed",
			ClientDescription: c.description,
			TaskStates:        event(c.event),
		}
		if got := EndText(a); got != c.want {
			t.Errorf("%q and %q: got %q, want %q",
				c.description, c.event, got, c.want)
		}
	}
}
