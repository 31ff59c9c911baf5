package structs

import "testing"

func TestParseSignal_TakesEveryForm(t *testing.T) {
	for written, want := range map[string]string{
		"hup":     "SIGHUP",
		"HUP":     "SIGHUP",
		"sigusr1": "SIGUSR1",
		"SIGTERM": "SIGTERM",
		"":        "",
		"SIG":     "",
		"9":       "",
		"SIGNONE": "",
	} {
		got, err := ParseSignal(written)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v", written, got, err)
		}
		if err != nil && !IsKind(err, KindInvalid) {
			t.Errorf("%q: %v", written, err)
		}
	}
}
