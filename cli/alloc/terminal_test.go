package alloc

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEscapeReader_EndsAtTheStartOfALine(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"abc":          "abc",
		"~.x":          "|",
		"a~.b\n":       "a~.b\n",
		"a\n~.b":       "a\n|",
		"a\r~.b":       "a\r|",
		"~~.\n~.":      "~.\n|",
		"~a~.\n":       "~a~.\n",
		"~":            "~",
		"a\n~":         "a\n~",
		"~\n~.":        "~\n|",
		"a\n~~~.\n~.x": "a\n~~.\n|",
	} {
		for _, slow := range []bool{false, true} {
			var from io.Reader = strings.NewReader(in)
			if slow {
				from = iotest.OneByteReader(from)
			}
			ended := ""
			r := newEscapeReader(from, '~', func() { ended = "|" })
			got, err := io.ReadAll(r)
			if string(got)+ended != want || err != nil {
				t.Errorf("%q: got %q%s, %v, want %q", in, got, ended, err, want)
			}
		}
	}
	r := newEscapeReader(strings.NewReader("~.x"), noEscape, func() { t.Error("there is no escape") })
	if got, err := io.ReadAll(r); string(got) != "~.x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
