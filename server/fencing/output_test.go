package fencing

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOutput_ShowsWholeLinesWithoutSecrets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":             {nil, ""},
		"an unfinished line":  {[]string{"a\nb"}, "a\nb\n"},
		"parts":               {[]string{"hun", "ter", "2 is it\nb\n"}, secretLine + "\nb\n"},
		"an unfinished one":   {[]string{"a\nit is hunt"}, "a\n" + secretLine + "\n"},
		"the second secret":   {[]string{"x-k", "ey-x\n"}, secretLine + "\n"},
		"control characters":  {[]string{"a\x1b[2J\r\nb\xff\n"}, "a\\x1b[2J\nb\\xff\n"},
		"a long line":         {[]string{strings.Repeat("x", maxLine), "y\nb\n"}, longLine + "\nb\n"},
		"an unfinished long":  {[]string{strings.Repeat("x", maxLine+1)}, longLine + "\n"},
		"a secret at its end": {[]string{strings.Repeat("x", maxLine), "hunter2\n"}, longLine + "\n"},
	} {
		o := output{secrets: []string{"hunter2", "key"}}
		for _, text := range c.writes {
			n, err := o.Write([]byte(text))
			if n != len(text) || err != nil {
				t.Errorf("%s: wrote %d, %v", name, n, err)
			}
		}
		if got := o.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestOutput_KeepsNoLongLine(t *testing.T) {
	t.Parallel()
	var o output
	for range 100 {
		_, _ = o.Write(make([]byte, maxLine))
	}
	if len(o.line) > maxLine {
		t.Errorf("it keeps %d bytes of a line", len(o.line))
	}
}

func TestOutput_IsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	var o output
	_, _ = o.Write([]byte(strings.Repeat("ä", maxOutput) + "xy\n"))
	got := o.String()
	if len(got) > maxOutput || len(got) < maxOutput-4 || !utf8.ValidString(got) || !strings.HasPrefix(got, "ä") {
		t.Errorf("got %d bytes: %.20q", len(got), got)
	}
}
