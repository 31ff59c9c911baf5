package command

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse_SeparatesFlagsFromArguments(t *testing.T) {
	cmd := &Command{
		Name: "x",
		Flags: []Flag{
			{Name: "on"},
			{Name: "text", Kind: String, Default: "d"},
			{Name: "list", Kind: Strings},
			{Name: "for", Kind: Duration, Default: "5m"},
		},
	}
	for _, c := range []struct {
		line string
		args []string
		text string
		on   bool
		list []string
		span time.Duration
	}{
		{"", nil, "d", false, nil, 5 * time.Minute},
		{"a -on b", []string{"a", "b"}, "d", true, nil, 5 * time.Minute},
		{"--text=q -on=false -for 3s", nil, "q", false, nil, 3 * time.Second},
		{"-text -x a -text y", []string{"a"}, "y", false, nil, 5 * time.Minute},
		{
			"-list a=1 -list b=2 - -- -on",
			[]string{"-", "-on"}, "d", false, []string{"a=1", "b=2"}, 5 * time.Minute,
		},
	} {
		call := &Call{Command: cmd}
		err := call.Parse(strings.Fields(c.line))
		if err != nil {
			t.Errorf("%q: %v", c.line, err)
			continue
		}
		if !reflect.DeepEqual(call.Args, c.args) ||
			call.String("text") != c.text ||
			call.Bool("on") != c.on ||
			!reflect.DeepEqual(call.Strings("list"), c.list) ||
			call.Duration("for") != c.span {
			t.Errorf("%q: got the arguments %+v and the values %+v", c.line, call.Args, call.values)
		}
	}
}
