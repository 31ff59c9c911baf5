package cli

import (
	"bytes"
	"context"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
)

// runLine runs a command line without quotes in this process.
func runLine(t *testing.T, line string, extra ...Command) (code int, out, errs string) {
	t.Helper()
	return runArgs(t, strings.Fields(line), extra...)
}

// runArgs runs the command line of some arguments in this process.
func runArgs(t *testing.T, args []string, extra ...Command) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), args, Stdio{
		In:  strings.NewReader(""),
		Out: &o,
		Err: &e,
	}, extra...)
	return code, o.String(), e.String()
}

// serveAPI serves the HTTP API of an agent before fake servers.
func serveAPI(t *testing.T, caller *apitest.Caller, agent *apitest.Agent) (addr string) {
	t.Helper()
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRun_ExitsWithTheCodeOfTheError(t *testing.T) {
	caller := &apitest.Caller{}
	addr := serveAPI(t, caller, fakeAgent(t.TempDir()))
	for kind, want := range map[structs.Kind]int{
		structs.KindInvalid:      2,
		structs.KindDenied:       3,
		structs.KindNotFound:     4,
		structs.KindConflict:     5,
		structs.KindPrecondition: 6,
		structs.KindUnavailable:  7,
		structs.KindTimeout:      8,
		structs.KindInternal:     1,
	} {
		apitest.Fail(caller, structs.CSIVolumeDeregister, structs.Errorf(kind, "so it is"))
		code, _, errs := runLine(t, "volume deregister v -address "+addr)
		if code != want || !strings.HasPrefix(errs, "Error: so it is") {
			t.Errorf("%s: got exit code %d, want %d: %q", kind, code, want, errs)
		}
	}
	code, _, errs := runLine(t, "volume deregister")
	if code != 2 ||
		!strings.Contains(errs, `"berth volume deregister -h"`) {
		t.Errorf("wrong usage: got exit code %d: %q", code, errs)
	}
}

func TestRun_MergesCommandsOfOtherPackages(t *testing.T) {
	var got []string
	extra := []Command{
		{
			Name:     "agent",
			Group:    GroupSelf,
			Synopsis: "Run an agent",
			Local:    true,
			Flags:    []Flag{{Name: "config", Kind: Strings}},
			Run: func(_ context.Context, c *Call) error {
				got = c.Strings("config")
				return nil
			},
		},
		{
			Name: "plugin",
			Sub: []Command{{
				Name:     "sample",
				Synopsis: "Run a plugin",
				Run:      func(context.Context, *Call) error { return nil },
			}},
		},
	}
	code, _, errs := runLine(t, "agent -config a -config b", extra...)
	if code != 0 || !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("got exit code %d and the values %q: %q", code, got, errs)
	}
	_, out, _ := runLine(t, "", extra...)
	if !strings.Contains(out, "Run an agent") {
		t.Errorf("the help lacks the command:\n%s", out)
	}
	_, out, _ = runLine(t, "plugin", extra...)
	if !strings.Contains(out, "status") || !strings.Contains(out, "sample") {
		t.Errorf("the help of a group lacks a command:\n%s", out)
	}
}

// checkExamples fails the test unless a command has examples that its own parser takes.
func checkExamples(t *testing.T, path string, c Command) {
	t.Helper()
	if c.Run == nil {
		return
	}
	if c.Examples == "" {
		t.Errorf("%s has no example", path)
	}
	for line := range strings.SplitSeq(c.Examples, "\n") {
		_, rest, found := strings.Cut(line, "berth "+path)
		rest, _, _ = strings.Cut(rest, ">")
		rest = strings.TrimSuffix(strings.TrimSpace(rest), ")")
		call := &Call{Command: &c}
		err := call.Parse(splitWords(rest))
		if err == nil {
			err = CheckArgs(c.Args, call.Args)
		}
		if !found || err != nil {
			t.Errorf("%s: the example %q: %v", path, line, err)
		}
	}
}

// splitWords splits a line as a shell does, as far as examples go: a text in double quotes is one word.
func splitWords(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// unrendered lists the commands that print the output of tasks, commands and agents unchanged.
var unrendered = []string{" alloc exec", " alloc logs", " operator metrics"}

// TestTree_CommandsFollowTheRules holds every command to the rules that help and parsing need.
func TestTree_CommandsFollowTheRules(t *testing.T) {
	var walk func(path string, c Command)
	walk = func(path string, c Command) {
		path += " " + c.Name
		if c.Synopsis == "" ||
			strings.HasSuffix(c.Synopsis, ".") ||
			strings.Contains(c.Synopsis, "\n") {
			t.Errorf("%s: the synopsis is %q", path, c.Synopsis)
		}
		if (c.Run == nil) == (len(c.Sub) == 0) {
			t.Errorf("%s both runs and has commands, or neither", path)
		}
		seen := map[string]bool{}
		for _, f := range c.AllFlags() {
			if seen[f.Name] || f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s: the flag -%s is a duplicate or has the usage %q", path, f.Name, f.Usage)
			}
			seen[f.Name] = true
		}
		if c.Run != nil &&
			!c.Local &&
			!c.Renders &&
			!c.Acts &&
			!slices.Contains(unrendered, path) {
			t.Errorf("%s has no -json", path)
		}
		checkExamples(t, strings.TrimSpace(path), c)
		code, out, errs := runLine(t, path+" -h")
		if code != 0 ||
			errs != "" ||
			!strings.HasPrefix(out, "Usage: berth"+path) {
			t.Errorf("%s -h: got exit code %d: %q %q", path, code, out, errs)
		}
		for line := range strings.Lines(out) {
			if len(line) > HelpWidth+1 {
				t.Errorf("%s -h: a line of %d characters: %s", path, len(line)-1, line)
			}
		}
		for _, s := range c.Sub {
			walk(path, s)
		}
	}
	for _, c := range tree {
		if c.Group == "" {
			t.Errorf("%s is in no group", c.Name)
		}
		walk("", c)
	}
}

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
		{"-list a=1 -list b=2 - -- -on", []string{"-", "-on"}, "d", false, []string{"a=1", "b=2"}, 5 * time.Minute},
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

func TestFitColumns_NarrowsTheWidestColumns(t *testing.T) {
	for _, c := range []struct {
		widths []int
		whole  int // how many of the first columns are never cut
		width  int
		want   []int
	}{
		{[]int{8, 100}, 0, 0, []int{8, 100}},
		{[]int{8, 20}, 0, 80, []int{8, 20}},
		{[]int{8, 100}, 0, 80, []int{8, 70}},
		{[]int{30, 60, 40}, 0, 100, []int{30, 33, 33}},
		{[]int{8, 8, 50}, 0, 10, []int{8, 8, 8}},
		{[]int{50, 60}, 0, 20, []int{9, 9}},
		{[]int{36, 30, 30}, 1, 80, []int{36, 20, 20}},
		{[]int{36, 30}, 2, 40, []int{36, 30}},
	} {
		var columns []*column
		for i, width := range c.widths {
			title := "Name"
			if i < c.whole {
				title = "ID"
			}
			columns = append(columns, &column{cells: []string{title}, width: width})
		}
		fitColumns(columns, c.width)
		var got []int
		for _, column := range columns {
			got = append(got, column.width)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v in %d characters: got %v, want %v",
				c.widths, c.width, got, c.want)
		}
	}
	if got := CutCell("größer", 4); got != "grö…" {
		t.Errorf("got %q, want %q", got, "grö…")
	}
}

func TestDropColumns_DropsSpareColumnsAndPutsTextsBelow(t *testing.T) {
	const titles = "ID|Modified|State|Last Error"
	rows := Grid{
		{"a", "16m24s ago", "ready", ""},
		{"b", "3s ago", "attaching", "the array is full"},
	}
	for width, want := range map[int]string{
		0:  "ID,Modified,State,Last Error",
		44: "ID,Modified,State,Last Error",
		43: "ID,State,Last Error",
		32: "ID,State,Last Error",
		31: "ID,State",
		4:  "ID,State",
	} {
		columns, texts := dropColumns(columnsOf(titles, rows), width)
		var shown []string
		for _, column := range columns {
			shown = append(shown, column.cells[0])
		}
		if got := strings.Join(shown, ","); got != want {
			t.Errorf("width %d: got %s, want %s", width, got, want)
		}
		below := texts != nil && strings.Join(texts.cells, "|") == "Last Error||the array is full"
		if below != (width == 31 || width == 4) {
			t.Errorf("width %d: got %+v below the rows", width, texts)
		}
	}
}

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
		if got := FormatSpan(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestPrintTask_StateOfALostAllocationIsUnknown(t *testing.T) {
	for status, want := range map[string]string{
		structs.AllocRunning: "State = running\n",
		structs.AllocLost:    "State = unknown; it was running at the last heartbeat of its node\n",
	} {
		var out bytes.Buffer
		c := &Call{
			Stdio:   Stdio{Out: &out},
			Command: &Command{Renders: true},
		}
		printTask(c, "t", &structs.TaskState{State: structs.TaskRunning}, status)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %q, want %q", status, out.String(), want)
		}
	}
}

func TestTaskTitle_HasTheLifecycle(t *testing.T) {
	g := &structs.TaskGroup{Tasks: []*structs.Task{
		{Name: "main"},
		{Name: "first", Lifecycle: &structs.TaskLifecycle{Hook: "prestart"}},
		{Name: "side", Lifecycle: &structs.TaskLifecycle{Hook: "poststart", Sidecar: true}},
	}}
	for name, want := range map[string]string{
		"main":  `Task "main"`,
		"first": `Task "first" (prestart)`,
		"side":  `Task "side" (poststart sidecar)`,
		"gone":  `Task "gone"`,
	} {
		if got := taskTitle(g, name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := taskTitle(nil, "x"); got != `Task "x"` {
		t.Errorf("without a group: got %q", got)
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

func TestBlockedText_DoesNotRepeatTheError(t *testing.T) {
	failed := &structs.OperationError{Message: "no space"}
	for _, c := range []struct {
		state string
		err   *structs.OperationError
		want  string
	}{
		{structs.VolumeCreating, failed, ""},
		{structs.VolumeDeleting, failed, ""},
		{structs.VolumeDeleting, nil, "volume v: no space"},
		{structs.VolumeFailed, failed, "correct it and create it again, or delete it"},
		{structs.VolumeReady, failed, "volume v: no space"},
	} {
		v := &structs.CSIVolumeDetail{Blocked: "volume v: no space"}
		v.State = c.state
		v.LastError = c.err
		if got := BlockedText(v); got != c.want {
			t.Errorf("%s: got %q, want %q", c.state, got, c.want)
		}
	}
}

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
