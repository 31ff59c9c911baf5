package nomad

import "testing"

// TestHideValues_OfSecretFields: a sentence on a job shows no value of them, wherever they are.
func TestHideValues_OfSecretFields(t *testing.T) {
	t.Parallel()
	src := []byte(`{"ID": "web", "VaultToken": "s.abcd", "Tasks": [{"Env": {"A": "longsecret", "B": "longsecretmore"},
 "Config": {"image": "plain", "auth": [{"password": "pass"}], "n": 1}, "Short": "x", "Env2": "web"}]}`)
	got := hideValues("web longsecretmore longsecret plain s.abcd pass x", src)
	if want := "web [hidden] [hidden] plain [hidden] [hidden] x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := hideValues("secret", []byte("secret")); got != "it is not the JSON of a job" {
		t.Errorf("of no job: got %q", got)
	}
}

func TestWithoutValue_KeepsTheReason(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Actions [{\"Command\": \"geheim\nx\"}] has no effect: a reason": "Actions has no effect: a reason",
		"Notes has no effect: a reason":                                  "Notes has no effect: a reason",
	} {
		if got := withoutValue(line); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
