package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRead_HasNoValueOfTheEnvironment(t *testing.T) {
	const secret = "canary-8c1f"
	t.Setenv("HOSTFACTS_TOKEN", secret)
	h, err := readHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), secret) {
		t.Errorf("the description has the value of a variable: %s", b)
	}
	if h.Environment["HOSTFACTS_TOKEN"] != redacted {
		t.Errorf("the variable is %q, want its name without its value", h.Environment["HOSTFACTS_TOKEN"])
	}
	if !strings.HasPrefix(h.OS, "Linux ") || len(h.Network) == 0 {
		t.Errorf("the description is %+v, want the kernel and the interfaces", h)
	}
}

// The environment is a list of texts of any form.
func TestEnvironment_HasNamesAlone(t *testing.T) {
	got := environment([]string{"A_1=x", "no name", "with blank=x", "=x", "B"})
	if len(got) != 1 || got["A_1"] != redacted {
		t.Errorf("got %v, want A_1 alone", got)
	}
}
