package show

import (
	"testing"
	"time"

	"berth/structs"
)

func TestFormatSpan_ShowsTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                      "0s",
		400 * time.Millisecond: "0s",
		59 * time.Second:       "59s",
		time.Minute:            "1m",
		61 * time.Second:       "1m1s",
		3*time.Hour + 20*time.Minute + 5*time.Second: "3h20m",
		50 * time.Hour: "2d2h",
		48 * time.Hour: "2d",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestProblemText_ShowsACodeOnce(t *testing.T) {
	for want, e := range map[string]*structs.OperationError{
		"AlreadyExists: it is there": {Code: "AlreadyExists", Message: "it is there"},
		`plugin "p": CreateVolume: Internal: out of ink`: {
			Code:    "Internal",
			Message: `plugin "p": CreateVolume: Internal: out of ink`,
		},
		"timeout: too slow": {Kind: structs.KindTimeout, Message: "too slow"},
		"":                  nil,
	} {
		if got := ProblemText(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
