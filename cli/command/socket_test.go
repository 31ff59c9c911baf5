package command

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

func TestRun_NamesTheCommandOverTheOperatorSocket(t *testing.T) {
	denied := &structs.Error{Kind: structs.KindDenied, Text: "not here", Socket: "/srv/my data/berth.sock"}
	verb := Command{
		Name: "confirm-lost",
		Args: "<node>",
		Acts: true,
		Flags: []Flag{
			{Name: "force"},
			{Name: "reason", Kind: String},
		},
		Run: func(context.Context, *Call) error { return fmt.Errorf("confirming: %w", denied) },
	}
	root := Command{Name: "berth", Sub: []Command{{Name: "node", Sub: []Command{verb}}}}
	const over = "sudo berth node confirm-lost -address 'unix:///srv/my data/berth.sock'"
	for _, c := range []struct{ args, namespace, want string }{
		{"-address http://10.0.0.1:4746 n1", "", over + " n1"},
		{"n1 -force -reason off", "", over + " -force -reason off n1"},
		{"-json=false -reason it's -- -n1", "", over + ` -reason 'it'\''s' -- -n1`},
		{"n1", "web", over + " -namespace web n1"},
		{"-address https://a -ca-cert ca.pem -client-cert c.pem -client-key k.pem -tls-server-name s n1", "",
			over + " n1"},
		{"-namespace db -region eu n1", "web", over + " -namespace db -region eu n1"},
	} {
		t.Setenv("BERTH_NAMESPACE", c.namespace)
		var errs strings.Builder
		args := append([]string{"node", "confirm-lost"}, strings.Fields(c.args)...)
		code := root.Main(t.Context(), args, Stdio{In: strings.NewReader(""), Out: &errs, Err: &errs})
		want := "Error: confirming: not here\nRun there: " + c.want + "\n"
		if code != structs.KindDenied.ExitCode() || errs.String() != want {
			t.Errorf("%s: exit code %d, got\n%swant\n%s", c.args, code, errs.String(), want)
		}
	}
}

func TestRun_NamesNoSocketForOtherErrors(t *testing.T) {
	root := Command{Name: "berth", Sub: []Command{{
		Name: "x",
		Run:  func(context.Context, *Call) error { return structs.Deniedf("no") },
	}}}
	var errs strings.Builder
	root.Main(t.Context(), []string{"x"}, Stdio{In: strings.NewReader(""), Out: &errs, Err: &errs})
	if errs.String() != "Error: no\n" {
		t.Errorf("got %q", errs.String())
	}
}
